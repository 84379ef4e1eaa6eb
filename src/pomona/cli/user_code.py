"""Where in a user's own file an error happened: a task, a model, a measure or a function that was brought.

    place_of(error)        "mymodels.py, line 12, in forward", or "" if no code of a user's took part
"""

from __future__ import annotations

import sysconfig
from pathlib import Path

import pomona

_OURS = Path(pomona.__file__).parent
_INSTALLED = [Path(sysconfig.get_path(name)) for name in ("stdlib", "platstdlib", "purelib", "platlib")]


def place_of(error: BaseException) -> str:
    """File, line and function of the innermost code that is neither ours nor installed."""
    while error.__cause__ is not None:
        error = error.__cause__
    if isinstance(error, SyntaxError) and error.filename and _is_users(error.filename):
        return f"{_short(error.filename)}, line {error.lineno}"
    place, trace = "", error.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        if _is_users(code.co_filename) and trace.tb_frame.f_globals.get("__name__") != "__main__":
            inside = f", in {code.co_name}" if code.co_name != "<module>" else ""
            place = f"{_short(code.co_filename)}, line {trace.tb_lineno}{inside}"
        trace = trace.tb_next
    return place


def _is_users(file: str) -> bool:
    path = Path(file)
    return path.is_file() and not any(path.is_relative_to(folder) for folder in (_OURS, *_INSTALLED))


def _short(file: str) -> str:
    """The path from the working folder, if the file is in it."""
    path = Path(file)
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)

"""Lists of tasks, models, measures and papers, for `pomona ls` and for the tables of the docs.

    listing("models")["treelstm"]       {"about": "A TreeLSTM that is given the gold trees.", "settings": {...}, ...}

Models and papers bring torch with them, so each kind is imported when it is asked for. Measures are plain functions in
files of their own: they are read, not run.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pomona.base.errors import SpecError, did_you_mean
from pomona.base.registry import settings_of

Listing = dict[str, dict[str, Any]]

_MEASURES = {
    "accuracy": "evaluation/accuracy.py",
    "disentanglement": "representations/disentanglement.py",
    "edit_distance": "representations/edit_distance.py",
    "effective_depth": "shortcuts/effective_depth.py",
    "fairness": "fairness/__init__.py",
    "information": "representations/information.py",
    "parse_f1": "evaluation/parse_f1.py",
    "reconstruction": "representations/tre/__init__.py",
    "shortcuts": "shortcuts/ladder.py",
    "significance": "evaluation/significance.py",
    "topographic": "representations/topographic.py",
}


def listing(kind: str) -> Listing:
    """Everything of one kind by name, as plain JSON values; `about` describes each in one line."""
    if kind not in KINDS:
        raise SpecError(f"there are no {kind!r}. {did_you_mean(kind, KINDS)}")
    return KINDS[kind]()


def tasks(family: str = "") -> Listing:
    """All tasks with their presets, or those of one family, for example `listops`."""
    from pomona.data.task import TASKS

    entries = (
        [TASKS.entry(family)[0]]
        if family
        else [entry for entry in TASKS.entries() if entry.kind.__module__.startswith("pomona.")]
    )
    built = {name: (entry.about, TASKS.build(name)) for entry in entries for name in entry.names}
    return {
        name: {"splits": task.sizes, "about": about, "settings": settings_of(task)}
        for name, (about, task) in built.items()
    }


def _models() -> Listing:
    from pomona.models.model import MODELS

    return {
        entry.name: {
            "about": entry.about,
            "example": entry.kind.example,
            "settings": settings_of(MODELS.build(entry.name)),
        }
        for entry in MODELS.entries()
        if entry.kind.__module__.startswith("pomona.")  # not what a user's own module has added
    }


def _papers() -> Listing:
    from pomona.papers.reproduce import PAPERS

    return {
        entry.name: {"about": entry.about, "title": entry.kind.title, "places": list(entry.kind.places)}
        for entry in PAPERS.entries()
    }


def _measures() -> Listing:
    home = Path(__file__).parents[1]
    files = {name: home / path for name, path in _MEASURES.items()}
    files |= {path.stem: path for path in (home / "measures").glob("[!_]*.py")}
    return {name: _read(path) for name, path in sorted(files.items())}


def _read(path: Path) -> dict[str, Any]:
    """The first line of a module and its public functions: those it defines or, if it only collects, lists."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    functions = [node.name for node in tree.body if isinstance(node, ast.FunctionDef)]
    for node in tree.body:
        if isinstance(node, ast.Assign) and any(getattr(one, "id", "") == "__all__" for one in node.targets):
            functions = [name for name in ast.literal_eval(node.value) if name.islower()]
    about = (ast.get_docstring(tree) or "").partition("\n")[0]
    return {"about": about, "functions": [name for name in functions if not name.startswith("_")]}


KINDS: dict[str, Callable[[], Listing]] = {
    "tasks": tasks,
    "models": _models,
    "measures": _measures,
    "papers": _papers,
}

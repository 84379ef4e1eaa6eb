"""Lists of tasks, models, measures and papers, for `pomona ls` and for the tables of the docs.

    listing("models")["treelstm"]       {"about": "A TreeLSTM that is given the gold trees.", "settings": {...}, ...}

Models bring torch with them, so each kind is imported when it is asked for. Without torch, models have their names and
descriptions only.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pomona.base.errors import SpecError, did_you_mean
from pomona.base.registry import settings_of

Listing = dict[str, dict[str, Any]]
NO_TORCH = "settings and training need torch: pip install 'pomona[train]'"

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
    try:
        from pomona.models.model import MODELS
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        from pomona.base.registry import Registry
        from pomona.models import FOLDERS

        abouts = Registry[object]("model", *FOLDERS).abouts()
        return {name: {"about": about, "settings": NO_TORCH} for name, about in abouts.items()}
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
    from pomona.evaluation.measure import MEASURES, ItemMeasure

    return {
        entry.name: {
            "about": entry.about,
            "reads": list(entry.kind.reads) if issubclass(entry.kind, ItemMeasure) else ["an evaluation"],
            "settings": settings_of(MEASURES.build(entry.name)),
        }
        for entry in MEASURES.entries()
        if entry.kind.__module__.startswith("pomona.")
    }


KINDS: dict[str, Callable[[], Listing]] = {
    "tasks": tasks,
    "models": _models,
    "measures": _measures,
    "papers": _papers,
}

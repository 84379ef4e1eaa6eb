"""Lists of tasks, models, measures and papers, for `pomona ls` and for the tables of the docs.

    listing("models")["treelstm"]       {"about": "A TreeLSTM that is given the gold trees.", "settings": {...}, ...}
    described("treelstm")               the same of one name, each setting with its type, its default and a line of help

Models bring torch with them, so each kind is imported when it is asked for. Without torch, models have their names and
descriptions only.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from typing import Any

from pomona.base.errors import SpecError, did_you_mean
from pomona.base.field_help import fields_of
from pomona.base.registry import plain_setting, settings_of

Listing = dict[str, dict[str, Any]]
NO_TORCH = "settings and training need torch: pip install 'pomona[train]'"


def listing(kind: str, also: Collection[str] = ()) -> Listing:
    """Everything of one kind by name, as plain JSON values; `about` describes each in one line.

    What a user's own module has added is listed if the module is in `also`.
    """
    if kind not in KINDS:
        raise SpecError(f"there are no {kind!r}. {did_you_mean(kind, KINDS)}")
    return KINDS[kind](also)


def _listed(entry: Any, also: Collection[str]) -> bool:
    module = str(entry.kind.__module__)
    return module.startswith("pomona.") or module in also


def tasks(also: Collection[str] = (), family: str = "") -> Listing:
    """All tasks with their presets, or those of one family, for example `listops`."""
    from pomona.data.task import TASKS

    entries = [TASKS.entry(family)[0]] if family else [entry for entry in TASKS.entries() if _listed(entry, also)]
    built = {name: (entry.about, TASKS.build(name)) for entry in entries for name in entry.names}
    return {
        name: {"splits": task.sizes, "about": about, "settings": settings_of(task)}
        for name, (about, task) in built.items()
    }


def _models(also: Collection[str] = ()) -> Listing:
    try:
        from pomona.models.model import MODELS
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        return {name: {"about": about, "settings": NO_TORCH} for name, about in _model_abouts().items()}
    return {
        entry.name: {
            "about": entry.about,
            "example": entry.kind.example,
            "settings": settings_of(MODELS.build(entry.name)),
        }
        for entry in MODELS.entries()
        if _listed(entry, also)
    }


def _papers(also: Collection[str] = ()) -> Listing:
    from pomona.papers.reproduce import PAPERS

    return {
        entry.name: {"about": entry.about, "title": entry.kind.title, "places": list(entry.kind.places)}
        for entry in PAPERS.entries()
    }


def _measures(also: Collection[str] = ()) -> Listing:
    from pomona.evaluation.measure import MEASURES, ItemMeasure

    return {
        entry.name: {
            "about": entry.about,
            "reads": list(entry.kind.reads) if issubclass(entry.kind, ItemMeasure) else ["an evaluation"],
            "settings": settings_of(MEASURES.build(entry.name)),
        }
        for entry in MEASURES.entries()
        if _listed(entry, also)
    }


def described(name: str) -> dict[str, Any]:
    """All there is to say of one task, preset, model, measure or paper; an error suggests near names."""
    if name == "recipe":
        return _recipe()
    for find in (_task, _measure, _paper, _model):  # each imports what it needs, models torch
        with suppress(SpecError):
            return find(name)
    from pomona.data.task import TASKS
    from pomona.evaluation.measure import MEASURES
    from pomona.papers.reproduce import PAPERS

    if "/" in name:
        TASKS.entry(name)  # a wrong preset is an error that names the right ones
    families = [*KINDS, "recipe", *_model_abouts()]
    entries: list[Any] = [*TASKS.entries(), *MEASURES.entries(), *PAPERS.entries()]
    presets = [preset for entry in TASKS.entries() for preset in entry.names]
    known = dict.fromkeys([*families, *(entry.name for entry in entries), *presets])
    raise SpecError(f"nothing is called {name!r}. {did_you_mean(name, known)}")


def _recipe() -> dict[str, Any]:
    """The settings of a training; those that have an option of their own are left out."""
    from pomona.training.recipe import Recipe

    apart = ("model", "settings", "seed", "data", "data_settings", "data_seed", "dev")
    settings = {
        name: {"type": item.type, "default": plain_setting(item.default), "help": item.help}
        for name, item in fields_of(Recipe).items()
        if name not in apart
    }
    about = "how a model is trained, of which the settings are given to `pomona train`"
    return {"kind": "recipe", "name": "recipe", "about": about, "settings": settings}


def _entry(kind: str, entry: Any, values: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """What every entry has: kind, name, description, and its settings; `values` are given by a preset."""
    settings = {
        name: {"type": item.type, "default": plain_setting((values or {}).get(name, item.default)), "help": item.help}
        for name, item in fields_of(entry.kind).items()
    }
    return {"kind": kind, "name": entry.name, "about": entry.about, "settings": settings}


def _task(name: str) -> dict[str, Any]:
    from pomona.data.task import TASKS

    entry, preset = TASKS.entry(name)
    values = entry.presets[preset] if preset else {}
    presets = {
        one: {
            "splits": TASKS.build(one).sizes,
            "set": plain_setting(entry.presets.get(one.partition("/")[2], {})),
        }
        for one in ([name] if preset else entry.names)
    }
    return {**_entry("task", entry, values), "name": name, "presets": presets}


def _measure(name: str) -> dict[str, Any]:
    from pomona.evaluation.measure import MEASURES

    return _entry("measure", MEASURES.entry(name)[0])


def _paper(name: str) -> dict[str, Any]:
    from pomona.papers.reproduce import PAPERS

    entry = PAPERS.entry(name)[0]
    paper: Any = entry.kind
    about = {"title": paper.title, "places": list(paper.places), "claims": [claim.says for claim in paper.claims]}
    return {**_entry("paper", entry), **about}


def _model(name: str) -> dict[str, Any]:
    abouts = _model_abouts()
    try:
        from pomona.models.model import MODELS

        entry = MODELS.entry(name)[0]
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        if name not in abouts:
            raise SpecError(f"no model is called {name!r}") from None
        return {"kind": "model", "name": name, "about": abouts[name], "settings": {}, "note": NO_TORCH}
    return {**_entry("model", entry), "example": entry.kind.example}


def _model_abouts() -> dict[str, str]:
    """The models by name, from the text of their files, without torch."""
    from pomona.base.registry import Registry
    from pomona.models import FOLDERS

    return Registry[object]("model", *FOLDERS).abouts()


KINDS: dict[str, Callable[[Collection[str]], Listing]] = {
    "tasks": tasks,
    "models": _models,
    "measures": _measures,
    "papers": _papers,
}

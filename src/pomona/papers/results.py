"""A file of results: read and checked, joined with what was measured now, and written by one process at a time.

    with held("results/listops_2018.json"):
        before = read_results("results/listops_2018.json")
        write_json("results/listops_2018.json", merged(before, now, "cpu"))

What was measured before and could not be measured now is kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from pomona.base.errors import FormatError, SpecError
from pomona.base.files import json_document, read_json
from pomona.base.locks import locked
from pomona.base.shapes import ANYTHING, COUNT, NUMBER, TEXT, WHOLE, Each, Maybe, check
from pomona.papers.records import recipe_key, train_command, without_seeds
from pomona.training.recipe import Recipe

Cell = dict[str, Any]


@contextmanager
def held(out: str | Path | None) -> Iterator[None]:
    """Keep other processes from writing a file of results; what they have written before is read first."""
    if out is None:
        yield
        return
    path = Path(out)
    with ExitStack() as held_now:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            held_now.enter_context(locked(path.with_name(f".{path.name}.lock"), wait=True))
        except OSError as error:
            raise FormatError(f"cannot be written: {error.strerror or error}", path=path) from error
        yield


def known_records(before: Mapping[str, Any], budget: str) -> dict[str, list[dict[str, Any]]]:
    """The records of earlier runs at this budget, by row."""
    known: dict[str, list[dict[str, Any]]] = {}
    for record in before.get("runs", []):
        if record.get("budget", "cpu") == budget:
            known.setdefault(record["row"], []).append(record)
    return known


def merged(before: Mapping[str, Any], now: Mapping[str, Any], budget: str) -> dict[str, Any]:
    """Results of now, with what was measured before and could not be measured now."""
    results = dict(now)
    results["cells"] = _kept_cells(before.get("cells", []), now["cells"])
    records = [{**record, "budget": budget} for record in now.get("runs", [])]
    again = {_mark(record) for record in records}
    results["runs"] = [*records, *(record for record in before.get("runs", []) if _mark(record) not in again)]
    results["recipes"] = _commands(results["runs"])
    for name in before.keys() - {"paper", "environment", "cells", "runs", "recipes"}:
        results[name] = _kept(before[name], results.get(name))
    return results


def _commands(records: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """The command that trains each recipe, by the key that cells carry; seeds are left out."""
    commands = {}
    for record in records:
        if {"model", "data"} <= record.get("recipe", {}).keys():
            recipe = Recipe.from_settings(record["recipe"])
            commands[recipe_key(recipe)] = train_command(without_seeds(recipe))
    return commands


def read_results(out: str | Path | None) -> dict[str, Any]:
    if out is None or not Path(out).exists():
        return {}
    try:
        results = check(read_json(out), _RESULTS)
        for number, record in enumerate(results.get("runs", [])):
            _readable_recipe(record, number)
        _can_be_written(results)
    except (FormatError, SpecError) as error:
        raise FormatError(f"{out} is there and cannot be read as results: {error}. Move it away.") from None
    return dict(results)


def _can_be_written(results: Mapping[str, Any]) -> None:
    """An error if what is not looked at could not be written again: NaN, Infinity, or lists too deep."""
    try:
        json_document(results)
    except (ValueError, RecursionError) as error:
        raise FormatError(f"it cannot be added to ({str(error)[:100]})") from None


_CELL = {
    "where": TEXT, "row": TEXT, "column": TEXT, "budget": TEXT, "measured": Maybe(NUMBER), "runs?": COUNT,
    "recipe?": Maybe(TEXT),
}  # fmt: skip
_RECORD = {
    "row": TEXT, "budget?": TEXT, "recipe?": Each(ANYTHING), "column?": Maybe(TEXT), "epochs?": COUNT,
    "best_epoch?": WHOLE, "train_rows?": COUNT, "dev_curve?": Maybe([NUMBER]), "dev?": NUMBER,
}  # fmt: skip
_RESULTS = {"paper?": TEXT, "cells?": [_CELL], "runs?": [_RECORD]}


def _readable_recipe(record: Mapping[str, Any], number: int) -> None:
    """An error if a record has a recipe that cannot be read: found before the training, not when it is over."""
    if {"model", "data"} <= record.get("recipe", {}).keys():
        try:
            Recipe.from_settings(record["recipe"])
        except SpecError as error:
            raise FormatError(f"runs[{number}].recipe: {error}") from None


def _kept_cells(before: list[Cell], now: list[Cell]) -> list[Cell]:
    """What was measured now, and what was measured before and could not be measured now, or from fewer runs."""
    old = {_place(cell): cell for cell in before if cell["measured"] is not None}
    here = {_place(cell) for cell in now}
    cells = [_newer(old.get(_place(cell)), cell) for cell in now]
    return cells + [cell for place, cell in old.items() if place not in here]


def _newer(before: Cell | None, now: Cell) -> Cell:
    """Which of two cells of one number stands. An earlier one whose recipe is no longer the planned one is marked."""
    if before is None:
        return now
    same = before.get("recipe") == now.get("recipe")
    fewer = now["measured"] is not None and same and "recipe" in now and before["runs"] > now["runs"]
    if now["measured"] is not None and not fewer:
        return now
    kept = {name: value for name, value in before.items() if name != "older_recipe"}
    return kept if same or "recipe" not in now else {**kept, "older_recipe": True}


def _kept(before: Any, now: Any) -> Any:
    """A section as it is now, or as it was if there is nothing now; a section of several parts, part by part."""
    if isinstance(before, dict) and isinstance(now, dict) and all(isinstance(part, dict) for part in before.values()):
        return {**before, **{name: part for name, part in now.items() if part or name not in before}}
    return now or before


def _mark(record: Mapping[str, Any]) -> tuple[str, ...]:
    """What tells a record of a run from the others."""
    seed = record.get("recipe", {}).get("seed")
    return tuple(str(part) for part in (record.get("budget", "cpu"), record["row"], record.get("column"), seed))


def _place(cell: Cell) -> tuple[str, ...]:
    return tuple(str(cell[key]) for key in ("where", "row", "column", "budget"))

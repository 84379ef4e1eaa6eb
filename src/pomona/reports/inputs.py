"""The inputs of a report: run folders and JSON files, recognised by their content.

    inputs = gather(["runs", "results/listops_2018.json", "certificate.json"])
    inputs.runs, inputs.results, inputs.evaluations, inputs.comparisons, inputs.fits, inputs.certificates

A folder with a recipe is a run; any other folder is searched. A file of answers stands for the evaluation that was kept
beside it. A file that the user names must be of a kind that a
report can show, otherwise it is an error. Other JSON files in a folder that is searched are ignored.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pomona.base.errors import FormatError
from pomona.base.files import read_bytes
from pomona.evaluation.records import BESIDE, as_evaluation, is_number, is_pair
from pomona.fairness import Certificate
from pomona.training.run import Run

CELL = {"where": str, "row": str, "column": str}
NUMBERS = ("printed", "measured", "deviation", "low", "high", "runs")


@dataclass
class Inputs:
    """Runs and files in the order of the arguments; each file with its path."""

    runs: list[Run] = field(default_factory=list)
    results: list[tuple[Path, dict[str, Any]]] = field(default_factory=list)  # of `pomona reproduce`
    evaluations: list[tuple[Path, dict[str, Any]]] = field(default_factory=list)  # of `pomona evaluate --json`
    comparisons: list[tuple[Path, dict[str, Any]]] = field(default_factory=list)  # of `pomona compare --json`
    fits: list[tuple[Path, dict[str, Any]]] = field(default_factory=list)  # of `pomona tre --out`
    certificates: list[tuple[Path, Certificate]] = field(default_factory=list)  # of `pomona certify --out`, or a run's
    notes: list[str] = field(default_factory=list)  # about files that could not be read and were left out

    @property
    def empty(self) -> bool:
        files = (self.results, self.evaluations, self.comparisons, self.fits, self.certificates)
        return not (self.runs or any(files))


def gather(paths: Sequence[str | Path]) -> Inputs:
    """Everything in these paths that a report can show, each run or file once."""
    inputs = Inputs()
    seen: set[Path] = set()
    for path in map(Path, paths):
        if not path.exists():
            raise FormatError("there is no such file or folder; name runs, results or certificates", path=path)
        path = _evaluated(path)
        if not _take(path, inputs, seen, named=True):
            raise FormatError("there is no run, and no file of ours, in this folder", path=path)
    return inputs


def _evaluated(path: Path) -> Path:
    """For a file of answers the evaluation beside it; any other path as it is."""
    beside = path.with_name(path.name + BESIDE)
    if path.name.endswith(BESIDE) or not path.is_file():
        return path
    if beside.is_file():
        return beside
    if path.suffix.lower() in (".jsonl", ".csv", ".tsv", ".txt"):
        raise FormatError(
            f"these answers were not evaluated yet; run `pomona evaluate {path} --data ...`, which keeps the scores "
            "beside the file",
            path=path,
        )
    return path


def _take(path: Path, inputs: Inputs, seen: set[Path], *, named: bool) -> bool:
    """Add the content of a path, once; False if it holds nothing that a report can show."""
    if path.resolve() in seen:
        return not inputs.empty
    if (path / "recipe.json").is_file():
        seen.add(path.resolve())
        inputs.runs.append(Run.read(path))
        if (path / "certificate.json").is_file():
            try:
                _take(path / "certificate.json", inputs, seen, named=True)
            except FormatError as error:
                inputs.notes.append(f"The certificate of a run is left out: {error}.")
        return True
    if path.is_dir():
        seen.add(path.resolve())  # before its content is searched: a link may lead back here
        children = [
            child
            for child in sorted(path.iterdir())
            if child.name[0] != "." and (child.is_dir() or child.suffix == ".json")
        ]
        taken = [_take(child, inputs, seen, named=False) for child in children]
        return any(taken)
    if not _document(path, inputs, named=named):
        return False
    seen.add(path.resolve())
    return True


def _document(path: Path, inputs: Inputs, *, named: bool) -> bool:
    """Add a JSON file of a known kind; False if it is of no known kind and the user did not name it."""
    try:
        content = json.loads(read_bytes(path))
    except (ValueError, RecursionError) as error:
        if named:
            raise FormatError(f"this is not JSON: {error}", path=path) from None
        return False
    if isinstance(content, dict):
        evidence = content["certificate"] if "encodings" in content and "certificate" in content else content
        if isinstance(evidence, dict) and "witnesses" in evidence and "coverage" in evidence:
            inputs.certificates.append((path, Certificate.from_plain(evidence, path)))
            return True
        if "cells" in content:
            inputs.results.append((path, checked_results(content, path)))
            return True
        if {"accuracy", "by", "fingerprint"} <= content.keys():
            inputs.evaluations.append((path, as_evaluation(content, path)))
            return True
        if {"sides", "pairs", "fingerprint"} <= content.keys():
            inputs.comparisons.append((path, checked_comparison(content, path)))
            return True
        if "per_item" in content and "certificate" in content:
            inputs.fits.append((path, checked_fit(content, path)))
            return True
    if named:
        raise FormatError(
            "this is no run, no results of `pomona reproduce`, no evaluation of `pomona evaluate --json`, no "
            "comparison of `pomona compare --json`, no fit of `pomona tre --out` and no certificate",
            path=path,
        )
    return False


def checked_results(content: dict[str, Any], path: Path) -> dict[str, Any]:
    """The results, after a check that cells have their names and that numbers are numbers or null."""
    cells = content["cells"]
    if not isinstance(cells, list):
        raise FormatError('"cells" is not a list', path=path)
    for number, cell in enumerate(cells):
        if not isinstance(cell, dict) or not all(isinstance(cell.get(key), kind) for key, kind in CELL.items()):
            raise FormatError(f'cell {number} lacks one of "where", "row", "column" as text', path=path)
        for key in NUMBERS:
            if not is_number(cell.get(key)):
                raise FormatError(f"cell {number}: {key} = {cell[key]!r} is neither a number nor null", path=path)
        if cell.get("interval") is not None and not is_pair(cell["interval"]):
            raise FormatError(f"cell {number}: interval = {cell['interval']!r}, not two numbers or null", path=path)
    if not _curves(content.get("shortcuts") or {}):
        raise FormatError('"shortcuts" is not {data: {shortcut: {depth: [first, second, both]}}}', path=path)
    return content


def _curves(shortcuts: Any) -> bool:
    """Whether this maps data, baseline and depth to lists of three numbers or nulls."""
    if not isinstance(shortcuts, dict) or not all(isinstance(baselines, dict) for baselines in shortcuts.values()):
        return False
    curves = [curve for baselines in shortcuts.values() for curve in baselines.values()]
    return all(isinstance(curve, dict) for curve in curves) and all(
        depth.isdecimal() and isinstance(shares, list) and len(shares) == 3 and all(map(is_number, shares))
        for curve in curves
        for depth, shares in curve.items()
    )


def checked_comparison(content: dict[str, Any], path: Path) -> dict[str, Any]:
    """The comparison, after a check that its sides and pairs have names and numbers."""

    def is_difference(value: Any) -> bool:
        interval = value.get("interval") if isinstance(value, dict) else 0
        return (interval is None or is_pair(interval)) and is_number(value.get("value"))

    sides, pairs = content["sides"], content["pairs"]
    good = isinstance(sides, list) and isinstance(pairs, list) and isinstance(content.get("notes", []), list)
    good = good and all(isinstance(one, dict) for one in [*sides, *pairs])
    good = good and all(isinstance(side.get("name"), str) and is_difference(side) for side in sides)
    for pair in pairs if good else ():
        numbers = [pair.get(key) for key in ("p_value", "adjusted", "only_first", "only_second", "detectable")]
        named = all(isinstance(pair.get(key), str) for key in ("first", "second", "test"))
        good = good and named and all(map(is_number, numbers)) and is_difference(pair.get("difference"))
    if not good:
        raise FormatError("not a comparison of `pomona compare --json`: a side or a pair cannot be read", path=path)
    return content


def checked_fit(content: dict[str, Any], path: Path) -> dict[str, Any]:
    """The TRE fit, after a check that its scores are numbers."""
    parts = (("certificate", dict), ("per_item", list), ("best", list), ("worst", list), ("compose", str))
    for key, kind in (*parts, ("distance", str)):
        if not isinstance(content.get(key), kind):
            raise FormatError(f"not a fit of `pomona tre --out`: {key!r} is missing or of another kind", path=path)
    items = [*content["best"], *content["worst"]]
    numbers = [
        content.get("score"),
        *content["per_item"],
        *(item.get("tre") for item in items if isinstance(item, dict)),
    ]
    if not all(map(is_number, numbers)) or not all(isinstance(item, dict) for item in items):
        raise FormatError("not a fit of `pomona tre --out`: a score is no number", path=path)
    for key, kind in (("shuffle", dict), ("heldout", dict), ("interval", dict), ("notes", list)):
        if content.get(key) and not isinstance(content[key], kind):
            raise FormatError(f"not a fit of `pomona tre --out`: {key!r} is of another kind", path=path)
    return content

"""The inputs of a report: run folders and JSON files, recognised by their content.

    inputs = gather(["runs", "results/listops_2018.json", "certificate.json"])
    inputs.runs, inputs.results, inputs.evaluations, inputs.comparisons, inputs.fits, inputs.certificates

A folder with a recipe is a run; any other folder is searched. A file of answers stands for the evaluation that was kept
beside it. A file that the user names must be of a kind that a
report can show, otherwise it is an error. Other JSON files in a folder that is searched are ignored.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pomona.base.errors import FormatError
from pomona.base.files import read_json
from pomona.base.shapes import COUNT, NUMBER, TEXT, Each, Either, Maybe, check, fault
from pomona.evaluation.records import BESIDE, as_evaluation
from pomona.fairness import Certificate
from pomona.training.run import Run


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
        content = read_json(path)
    except FormatError:
        if named:
            raise
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
    wrong = fault(content, _RESULTS)
    curves = (content.get("shortcuts") or {}).values() if not wrong else ()
    depths = [depth for baselines in curves for curve in baselines.values() for depth in curve]
    if not wrong and not all(depth.isdecimal() and depth.isascii() and len(depth) < 5 for depth in depths):
        wrong = "shortcuts is not {data: {shortcut: {depth: [first, second, both]}}}"
    if wrong:
        raise FormatError(f"not results of `pomona reproduce`: {wrong}", path=path)
    return content


def checked_comparison(content: dict[str, Any], path: Path) -> dict[str, Any]:
    """The comparison, after a check that its sides and pairs have names and numbers."""
    return dict(check(content, _COMPARISON, path, "a comparison of `pomona compare --json`"))


def checked_fit(content: dict[str, Any], path: Path) -> dict[str, Any]:
    """The TRE fit, after a check that its scores are numbers."""
    return dict(check(content, _FIT, path, "a fit of `pomona tre --out`"))


_NUMBER = Maybe(NUMBER)
_CELL = {
    "where": TEXT, "row": TEXT, "column": TEXT, "command?": Maybe(TEXT), "interval?": Maybe((NUMBER, NUMBER)),
    "printed?": _NUMBER, "measured?": _NUMBER, "deviation?": _NUMBER,
    "low?": _NUMBER, "high?": _NUMBER, "runs?": Maybe(COUNT),
}  # fmt: skip
_RESULTS = {
    "paper?": Maybe(TEXT), "cells": [_CELL], "shortcuts?": Maybe(Each(Each(Each((_NUMBER, _NUMBER, _NUMBER))))),
}  # fmt: skip
_ITEM = {"item?": TEXT, "tre?": _NUMBER}
_FIT = {
    "score": _NUMBER, "compose": TEXT, "distance": TEXT, "items?": _NUMBER, "per_item": [_NUMBER], "best": [_ITEM],
    "worst": [_ITEM], "notes?": [TEXT], "shuffle?": Maybe(Each(Either(_NUMBER, TEXT))),
    "heldout?": Maybe(Each(_NUMBER)), "interval?": Maybe(Each(_NUMBER)), "certificate": Each(Either(_NUMBER, TEXT)),
}  # fmt: skip
_DIFFERENCE = {"value": _NUMBER, "interval": Maybe((NUMBER, NUMBER))}
_PAIR = {
    "first": TEXT, "second": TEXT, "test": TEXT, "difference": _DIFFERENCE,
    **{f"{key}?": _NUMBER for key in ("p_value", "adjusted", "only_first", "only_second", "detectable")},
}  # fmt: skip
_SIDE = {"name": TEXT, "accuracies?": Maybe([_NUMBER]), **_DIFFERENCE}
_COMPARISON = {"corpus?": Maybe(TEXT), "sides": [_SIDE], "pairs": [_PAIR], "notes?": Maybe([TEXT])}

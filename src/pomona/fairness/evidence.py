"""What a split shows: for each fact the first example and node, and the first that contradicts it. It adds up.

    facts = FactTable()
    trained = gather(facts, train, crew)          train is a corpus, or shards of any number of rows
    trained.first[fact]                           (example, node), counted in the whole split

A fact table numbers facts by first occurrence, so parts that are added in order give the table of the whole. Shards are
shared out in runs of neighbours: each worker makes the table of its run, in the memory of a row group and of the facts,
and the tables are joined in order. Of a fact in two runs the earlier one has the first place and the output; if the
later one begins with another output, that place contradicts it, otherwise the later run's own first contradiction does.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pomona.base.errors import FairnessError
from pomona.base.files import replacing
from pomona.base.workers import Crew
from pomona.data.corpus import Corpus, Outcome
from pomona.data.shards.folder import Shard, Shards
from pomona.fairness.facts import By, FactTable, Shown
from pomona.trees.values import from_json, to_json

RUNS_A_WORKER = 4  # into which shards are shared out
Places = npt.NDArray[np.int64]


@dataclass
class Evidence:
    """What the parts of a split have shown so far; `clash_output` is what the contradicting node says."""

    rows: int = 0
    linked: bool = False  # whether nodes quote others
    first: Places = field(default_factory=lambda: np.full((0, 2), -1))  # [facts, 2]: example and node, -1 for none
    clash: Places = field(default_factory=lambda: np.full((0, 2), -1))
    clash_output: dict[int, Outcome] = field(default_factory=dict)
    copied: set[int] | None = None  # arguments of COPY, if the text has any

    @classmethod
    def of(cls, shown: Shown) -> Evidence:
        """What one corpus shows."""
        evidence = cls()
        evidence.note(shown)
        return evidence

    def note(self, shown: Shown) -> None:
        """Add what the next part of the split shows; it was added to the same table."""
        self._widen(len(shown.first))
        new = np.flatnonzero((shown.first >= 0) & (self.first[:, 0] < 0))
        self.first[new] = _places(shown, shown.first[new], self.rows)
        against = np.flatnonzero((shown.clash >= 0) & (self.clash[:, 0] < 0))
        self.clash[against] = _places(shown, shown.clash[against], self.rows)
        self.clash_output |= {fact: shown.output(int(shown.clash[fact])) for fact in against.tolist()}
        if shown.copies is not None:
            self.copied = (self.copied or set()) | set(np.unique(shown.copies.argument).tolist())
        self.linked |= shown.corpus.forest.link is not None
        self.rows += len(shown.corpus)

    def _widen(self, facts: int) -> None:
        more = np.full((facts - len(self.first), 2), -1)
        self.first, self.clash = np.concatenate([self.first, more]), np.concatenate([self.clash, more])

    def join(self, later: Evidence, outputs: Sequence[Outcome], numbers: Places, same: npt.NDArray[np.bool_]) -> None:
        """Add what the next run of parts shows, by a table of its own: `numbers` are its facts in this table, `same`
        says which have the same output as here, `outputs` are theirs."""
        known = len(self.first)
        self._widen(max(known, int(numbers.max(initial=-1)) + 1))
        moved = np.array([self.rows, 0])
        new = numbers >= known
        self.first[numbers[new]] = later.first[new] + moved
        for fact in np.flatnonzero((later.clash[:, 0] >= 0) | ~same).tolist():
            number = int(numbers[fact])
            if self.clash[number, 0] >= 0:
                continue
            if not same[fact]:
                self.clash[number], self.clash_output[number] = later.first[fact] + moved, outputs[fact]
            else:
                self.clash[number] = later.clash[fact] + moved
                self.clash_output[number] = later.clash_output[fact]
        if later.copied is not None:
            self.copied = (self.copied or set()) | later.copied
        self.linked |= later.linked
        self.rows += later.rows


def _places(shown: Shown, nodes: npt.NDArray[np.int64], rows: int) -> Places:
    """Example and node of nodes of a corpus that comes after so many rows."""
    start = shown.corpus.forest.start[:: shown.corpus.width]
    row = np.searchsorted(start, nodes, side="right") - 1
    return np.stack([rows + row, nodes - start[row]], axis=1)


def gather(facts: FactTable, split: Corpus | Shards, crew: Crew) -> Evidence:
    """Put the facts of a split into a table that is still empty, and say where it shows them."""
    evidence = _gathered(facts, split, crew)
    if facts.spelling == "digits" and facts.addressed:  # a part had numbers of one digit only, which does not tell
        facts.clear(spelling="digits")
        evidence = _gathered(facts, split, crew)
    return evidence


def _gathered(facts: FactTable, split: Corpus | Shards, crew: Crew) -> Evidence:
    evidence = Evidence()
    if isinstance(split, Corpus):
        evidence.note(facts.add(split, facts=False))
        return evidence
    runs = split.groups(RUNS_A_WORKER * crew.size if crew.size > 1 else 1)
    with tempfile.TemporaryDirectory(prefix="pomona-facts-") as folder:
        orders = [
            {"shards": [shard.plain() for shard in run], "by": facts.by, "given": list(facts.given),
             "spelling": facts.spelling, "out": str(Path(folder) / f"{number}.npz")}
            for number, run in enumerate(runs)
        ]  # fmt: skip
        waiting: dict[int, Mapping[str, Any]] = {}
        following = 0
        for number, found in crew.run(facts_of_run, orders):
            waiting[number] = found
            while following in waiting:  # in the order of the rows
                _join(facts, evidence, waiting.pop(following))
                following += 1
    return evidence


def facts_of_run(
    shards: Sequence[Mapping[str, Any]], by: By, given: Sequence[str], spelling: Any, out: str
) -> dict[str, Any]:
    """The facts of neighbouring shards, in a file; what is no array is in the answer."""
    facts, evidence = FactTable(by, given), Evidence()
    facts.spelling = spelling
    for shard in map(Shard.of, shards):
        for part in shard.parts():
            evidence.note(facts.add(part, facts=False))
    clashing = sorted(evidence.clash_output)
    with replacing(out) as beside, beside.open("wb") as file:
        np.savez(
            file, first=evidence.first, clash=evidence.clash, function=facts.function, output=facts.output,
            start=facts.start, inputs=facts.inputs,
            shape=np.zeros(0, np.int32) if facts.shape is None else facts.shape,
        )  # fmt: skip
    return {
        "arrays": out, "where": str(shards[0]["path"]), "rows": evidence.rows, "linked": evidence.linked,
        "copied": None if evidence.copied is None else sorted(evidence.copied),
        "clashing": clashing, "clash_output": [to_json(evidence.clash_output[fact]) for fact in clashing],
        "functions": facts.functions, "values": _texts(facts.values), "spelling": facts.spelling,
        "addressed": facts.addressed,
    }  # fmt: skip


def _join(facts: FactTable, evidence: Evidence, found: Mapping[str, Any]) -> None:
    """Join the facts of the next run to those so far."""
    with np.load(found["arrays"], allow_pickle=False) as arrays:
        run = dict(arrays)
    Path(found["arrays"]).unlink()
    values = [from_json(json.loads(text)) for text in found["values"]]
    if {facts.spelling, found["spelling"]} >= {"words", "digits"}:
        raise FairnessError(
            f"{found['where']}: arguments of COPY are written as {found['spelling']} here and as {facts.spelling} "
            "before; write both in the same way"
        )
    facts.spelling = found["spelling"] or facts.spelling
    facts.addressed |= found["addressed"]
    numbers, same = facts.join(found["functions"], values, run, found["where"])
    outputs = [from_json(json.loads(text)) for text in found["clash_output"]]
    later = Evidence(
        found["rows"], found["linked"], run["first"], run["clash"],
        dict(zip(found["clashing"], outputs, strict=True)),
        None if found["copied"] is None else set(found["copied"]),
    )  # fmt: skip
    evidence.join(later, [values[value] for value in run["output"].tolist()], numbers, same)


def _texts(values: Iterable[Outcome]) -> list[str]:
    return [to_json(value) for value in values]

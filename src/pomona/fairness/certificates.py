"""Certificates: evidence that a training set shows all that a test needs, or that it does not.

    certificate = certify(train, test)
    certificate.fair                  # True: a learner that only remembers answers the whole test set
    certificate.witnesses[0]          # Witness(function='C1', inputs=('¬', 'T'), output='F', example=2, node=3)
    certificate.violations            # what training never showed, each with a test example that needs it
    check(certificate, train, test)   # slow, short, and trusts nothing (`pomona.fairness.checking`)

A local fact is a function, its inputs and its output at one node, for example MAX(2, 9) = 9. With a test set, training
must show every local fact of the test set. Without one (Definition 2 of Geiger et al. 2019), training must show every
function each combination of the values that occur at its arguments. The learner of `pomona.fairness.learner` then
computes every tree over these values. In both versions no input may have two outputs.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pomona.base import notebook
from pomona.base.arrays import Bools
from pomona.base.errors import FairnessError, FormatError
from pomona.base.files import read_json, write_json
from pomona.base.shapes import ANYTHING, COUNT, TEXT, TRUTH, Maybe, check
from pomona.base.workers import HERE, Crew
from pomona.data.corpus import Corpus, Outcome
from pomona.data.shards.folder import Shards
from pomona.fairness.copies import Copies, Spelling, added_up, by_depth, spelling_of
from pomona.fairness.evidence import Evidence, gather
from pomona.fairness.facts import By, FactTable, Inputs
from pomona.fairness.learner import ComposedValues, Conflict, Place, check_given, conflicts_of
from pomona.trees.values import exact_key, from_json

LISTED = 100_000  # violations of Definition 2 listed at most; the coverage counts all of them
_VERSION = "pomona certificate 1"
_SHOWN = 10  # functions and facts in a notebook
_PLACE = {"split": TEXT, "example": COUNT, "node": COUNT}
_SHAPE = {
    "fair": TRUTH, "by": TEXT, "given": [TEXT], "train": COUNT, "test": Maybe(COUNT), "answered": Maybe(COUNT),
    "spelling?": Maybe(TEXT),
    "copies?": [{"depth": COUNT, "examples": COUNT, "answered": COUNT, "familiar": COUNT, "copies": COUNT, "new": COUNT,
                 "indices": [COUNT]}],
    "coverage": [{"function": TEXT, "needed": COUNT, "shown": COUNT}],
    "conflicts": [
        {"function": TEXT, "inputs": [ANYTHING], "outputs": (ANYTHING, ANYTHING), "places": (_PLACE, _PLACE)}
    ],
    "violations": [{"function": TEXT, "inputs": [ANYTHING], "example": Maybe(COUNT), "node": Maybe(COUNT)}],
    "witnesses": [(TEXT, [ANYTHING], ANYTHING, COUNT, COUNT)],
}  # fmt: skip


class Witness(NamedTuple):
    """A needed fact, and the training example and node that show it."""

    function: str
    inputs: Inputs
    output: Outcome
    example: int
    node: int


class Violation(NamedTuple):
    """An input that training never shows; with a test set, the example and node that first need it."""

    function: str
    inputs: Inputs
    example: int | None = None
    node: int | None = None


class Coverage(NamedTuple):
    """How many inputs of a function are needed, and how many of them training shows."""

    function: str
    needed: int
    shown: int


@dataclass(frozen=True)
class Certificate:
    """Evidence that a training set is fair, or that it is not.

    `answered` counts the test examples that the memorising learner gets right at every node. If the test has COPYs,
    `copies` counts its examples by depth and lists the indices that training never copies; `spelling` says how the
    arguments of COPY are written.
    """

    witnesses: tuple[Witness, ...]
    violations: tuple[Violation, ...]
    conflicts: tuple[Conflict, ...]
    coverage: tuple[Coverage, ...]
    train: int
    test: int | None = None
    answered: int | None = None
    by: By = "type"
    given: tuple[str, ...] = ()
    copies: tuple[Copies, ...] = ()
    spelling: Spelling | None = None

    @property
    def missing(self) -> int:
        """How many needed inputs training does not show."""
        return sum(coverage.needed - coverage.shown for coverage in self.coverage)

    @property
    def new_indices(self) -> tuple[int, ...]:
        """The COPY indices of the test that training never copies; each is a missing fact unless spelled by digits."""
        return tuple(sorted({index for copies in self.copies for index in copies.indices}))

    @property
    def fair(self) -> bool:
        """Whether no fact is missing and no two facts contradict each other."""
        return not self.violations and not self.conflicts

    def __repr__(self) -> str:
        verdict = "fair" if self.fair else f"unfair: {self.missing:,} facts missing, {len(self.conflicts):,} conflicts"
        against = "its own domains" if self.test is None else f"{self.test:,} test examples"
        return f"Certificate({verdict}; {self.train:,} training examples against {against})"

    def _repr_html_(self) -> str:
        rows = [
            [covered.function, f"{covered.needed:,}", f"{covered.shown:,}", f"{covered.needed - covered.shown:,}"]
            for covered in self.coverage[:_SHOWN]
        ]
        lines = [repr(self).removeprefix("Certificate(").removesuffix(")")]
        if self.answered is not None and self.test is not None:
            lines.append(f"a learner that only remembers answers {self.answered:,} of {self.test:,} test examples")
        facts = [
            *(["missing", fact.function, ", ".join(map(str, fact.inputs))] for fact in self.violations[:_SHOWN]),
            *(["two outputs", fact.function, ", ".join(map(str, fact.inputs))] for fact in self.conflicts[:_SHOWN]),
        ]
        return notebook.page(
            notebook.heading("FAIR" if self.fair else "UNFAIR", *lines),
            notebook.table(["function", "inputs needed", "shown", "missing"], rows),
            notebook.table(["fact", "function", "inputs"], facts) if facts else "",
        )

    def save(self, path: str | Path) -> None:
        """Write the certificate as JSON."""
        write_json(path, self.plain())

    def plain(self) -> dict[str, Any]:
        """The content of the file: a dictionary of lists, numbers and strings."""
        return {
            "format": _VERSION,
            "fair": self.fair,
            "by": self.by,
            "given": list(self.given),
            "train": self.train,
            "test": self.test,
            "answered": self.answered,
            "missing": self.missing,
            "spelling": self.spelling,
            "new_indices": list(self.new_indices),
            "copies": [copies._asdict() | {"indices": list(copies.indices)} for copies in self.copies],
            "coverage": [coverage._asdict() for coverage in self.coverage],
            "conflicts": [
                conflict._asdict() | {"places": [place._asdict() for place in conflict.places]}
                for conflict in self.conflicts
            ],
            "violations": [violation._asdict() for violation in self.violations],
            "witnesses": [list(witness) for witness in self.witnesses],
        }

    @classmethod
    def load(cls, path: str | Path) -> Certificate:
        """Read what `save` wrote."""
        return cls.from_plain(read_json(path), path)

    @classmethod
    def from_plain(cls, data: Any, path: str | Path | None = None) -> Certificate:
        """The certificate of what `plain` returned; errors name `path`."""
        try:
            if not isinstance(data, dict) or data.get("format") != _VERSION:
                raise ValueError(f'the field "format" is not {_VERSION!r}')
            check(data, _SHAPE)
            certificate = cls(
                tuple(Witness(f, _values(i), from_json(o), e, n) for f, i, o, e, n in data["witnesses"]),
                tuple(Violation(**item | {"inputs": _values(item["inputs"])}) for item in data["violations"]),
                tuple(_conflict(**item) for item in data["conflicts"]),
                tuple(Coverage(**item) for item in data["coverage"]),
                data["train"],
                data["test"],
                data["answered"],
                data["by"],
                tuple(data["given"]),
                tuple(Copies(**item | {"indices": tuple(item["indices"])}) for item in data.get("copies", ())),
                data.get("spelling"),
            )
            if certificate.fair != data["fair"]:
                raise ValueError('"fair" contradicts the lists of violations and conflicts')
        except (ValueError, KeyError, TypeError, FormatError) as error:
            raise FormatError(f"not a certificate: {error}", path=path) from None
        return certificate


def _values(values: list[Any]) -> tuple[Outcome, ...]:
    return tuple(map(from_json, values))


def _conflict(function: str, inputs: list[Outcome], outputs: list[Outcome], places: list[dict[str, Any]]) -> Conflict:
    first, second = (Place(**place) for place in places)
    return Conflict(function, _values(inputs), (from_json(outputs[0]), from_json(outputs[1])), (first, second))


def certify(
    train: Corpus | Shards,
    test: Corpus | Shards | None = None,
    *,
    by: By = "type",
    given: Sequence[str] = (),
    crew: Crew = HERE,
) -> Certificate:
    """Whether `train` shows every fact that `test` needs; without a test set, every combination of the values it has.

    It takes time linear in the number of nodes. `by="node"` treats each position of one fixed tree as a function,
    instead of each node type. Functions named in `given`, or matched by a pattern such as 'REL_*', are taken as known.
    Shards (`pomona.data.Shards`) of train are shared out among the workers of `crew`, those of test are read one after
    the other; the memory is that of the different facts, the certificate that of the whole.
    """
    facts = FactTable(by, given)
    trained = gather(facts, train, crew)
    findings = _alone(facts, trained) if test is None else _against(facts, trained, test)
    places = trained.first[findings.shown].tolist()
    shown = zip(facts.rows(findings.shown.tolist()), places, strict=True)
    return Certificate(
        witnesses=tuple(Witness(*fact, *place) for fact, place in shown),
        violations=findings.violations,
        conflicts=findings.conflicts,
        coverage=findings.coverage,
        train=len(train),
        test=None if test is None else len(test),
        answered=findings.answered,
        by=by,
        given=tuple(given),
        copies=findings.copies,
        spelling=facts.spelling if findings.copies else None,
    )


class _Findings(NamedTuple):
    """The parts of a certificate; `shown` are the needed facts that training shows."""

    shown: npt.NDArray[np.int64]
    violations: tuple[Violation, ...]
    conflicts: tuple[Conflict, ...]
    coverage: tuple[Coverage, ...]
    answered: int | None = None
    copies: tuple[Copies, ...] = ()


def _alone(facts: FactTable, trained: Evidence) -> _Findings:
    """Definition 2: training against every combination of its own values."""
    if not trained.rows:
        raise FairnessError("there are no training examples and no test set, so there is no function to certify")
    if trained.linked:
        raise FairnessError(
            "these examples quote their own nodes, so not every combination of values can occur and Definition 2 "
            "does not apply; certify against a test set"
        )
    check_given(facts)
    missing, coverage = _unseen_combinations(facts)
    violations = tuple(Violation(function, inputs) for function, inputs in missing)
    return _Findings(np.arange(len(facts)), violations, conflicts_of(facts, trained, "train", trained), coverage)


def _against(facts: FactTable, trained: Evidence, test: Corpus | Shards) -> _Findings:
    """Training against the facts that a test set needs; these are added to the table."""
    conflicts = conflicts_of(facts, trained, "train", trained)
    learned = len(facts)
    if isinstance(test, Shards) and facts.spelling is None and trained.copied is not None:
        facts.spelling = spelling_of(test.parts())  # a single part of it may not tell
    tested = Evidence()
    for part in _parts(test):
        tested.note(facts.add(part, facts=False))
    check_given(facts)
    needed = np.flatnonzero(tested.first[:, 0] >= 0)
    missing = needed[needed >= learned].tolist()
    violations = tuple(
        Violation(function, inputs, *tested.first[fact].tolist())
        for fact, (function, inputs, _) in zip(missing, facts.rows(missing), strict=True)
    )
    known = {(conflict.function, exact_key(conflict.inputs)) for conflict in conflicts}
    later = conflicts_of(facts, trained, "test", tested)
    conflicts += tuple(conflict for conflict in later if (conflict.function, exact_key(conflict.inputs)) not in known)
    answered, copies = 0, tuple[Copies, ...]()
    for part in _parts(test):
        right = _answered(facts, trained, part)
        answered += int(right.sum())
        copies = added_up(copies, by_depth(trained.copied, part, right))
    coverage = _coverage(facts, needed, learned)
    return _Findings(needed[needed < learned], violations, conflicts, coverage, answered, copies)


def _parts(split: Corpus | Shards) -> Iterable[Corpus]:
    return (split,) if isinstance(split, Corpus) else split.parts()


def _coverage(facts: FactTable, needed: npt.NDArray[np.int64], learned: int) -> tuple[Coverage, ...]:
    """Coverage of the functions in the order in which they are first needed."""
    names = facts.functions
    function = facts.function[needed]
    total = np.bincount(function, minlength=len(names)).tolist()
    shown = np.bincount(function[needed < learned], minlength=len(names)).tolist()
    return tuple(Coverage(names[number], total[number], shown[number]) for number in _in_order(function))


def _in_order(column: npt.NDArray[Any]) -> list[int]:
    """Each number once, by first occurrence: the result must not depend on how a corpus numbers its names."""
    _, first = np.unique(column, return_index=True)
    return [int(number) for number in column[np.sort(first)]]


def _answered(facts: FactTable, trained: Evidence, test: Corpus) -> Bools:
    """Test examples that the learner gets right at every node, from the facts of training that have no conflict."""
    unknown = np.ones(len(facts), np.bool_)
    unknown[: len(trained.clash)] = trained.clash[:, 0] >= 0
    return ComposedValues(test, facts, *facts.compose_values(test, unknown)).right_throughout


def _unseen_combinations(facts: FactTable) -> tuple[list[tuple[str, Inputs]], tuple[Coverage, ...]]:
    """Definition 2: combinations of the values seen at a function's arguments that were never seen together."""
    names, values = facts.functions, facts.values
    arity = np.diff(facts.start)
    unseen: list[tuple[str, Inputs]] = []
    coverage = []
    for function in _in_order(facts.function):
        of_function = facts.function == function
        needed, shown = 0, int(of_function.sum())
        for count in _in_order(arity[of_function]):
            same_arity = np.flatnonzero(of_function & (arity == count))
            inputs = facts.inputs[facts.start[same_arity][:, None] + np.arange(count)]
            domains = [_in_order(column) for column in inputs.T]
            combinations = math.prod(map(len, domains))
            needed += combinations
            if combinations > len(same_arity) and len(unseen) < LISTED:
                seen = set(map(tuple, inputs.tolist()))
                new = (combination for combination in itertools.product(*domains) if combination not in seen)
                for combination in itertools.islice(new, LISTED - len(unseen)):
                    unseen.append((names[function], tuple(values[value] for value in combination)))
        coverage.append(Coverage(names[function], needed, shown))
    return unseen, tuple(coverage)

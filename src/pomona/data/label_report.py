"""A prover's report on the labels of a corpus: how many it checked, contradicts and cannot decide.

A task whose labels follow from logic returns a report from `Task.prove`; `pomona verify --prover` prints it.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Disagreement:
    """A row whose label a prover contradicts."""

    row: int
    given: str
    proved: str

    def __str__(self) -> str:
        return f"the file says {self.given}, the prover {self.proved}"


@dataclass(frozen=True)
class LabelReport:
    """The result of checking the labels of a corpus with a prover."""

    prover: str
    asked: int
    disagreements: tuple[Disagreement, ...]
    unknown: tuple[tuple[int, str], ...]  # row and reason

    @property
    def holds(self) -> bool:
        """Whether no label was contradicted; undecided labels do not count as contradicted."""
        return not self.disagreements

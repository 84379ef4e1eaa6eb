"""What a prover says about the labels of a corpus: how many it was asked, which it contradicts, which it cannot decide.

A task whose labels follow from logic returns one from `Task.prove`; `pomona verify --prover` reports it.
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
    """What a prover said about the labels of a corpus."""

    prover: str
    asked: int
    disagreements: tuple[Disagreement, ...]
    unknown: tuple[tuple[int, str], ...]  # row and reason

    @property
    def holds(self) -> bool:
        """Whether no label was contradicted; a label that the prover could not decide is not contradicted."""
        return not self.disagreements

"""What the models of sequences share: how they read a corpus, which words they know, and the settings of loops."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor

from pomona.base.errors import RunError, SpecError
from pomona.data.corpus import Corpus
from pomona.models.inputs.sequences import Sequences, words_of
from pomona.models.model import Model


@dataclass(frozen=True)
class SequenceModel(Model):
    """A model that reads whole sequences; it knows the words and answers of the corpus that it is trained on."""

    example = "orchard/hard/min-max"
    answers: int = 0  # of each example; 0: as many as the data ask for

    @property
    def questions(self) -> int:
        """How many answers the module gives: two, as ORCHARD asks for, if neither settings nor data have said."""
        return self.answers or 2

    def asking(self, answers: int) -> SequenceModel:
        return self if self.answers else replace(self, answers=answers)

    def words(self, corpus: Corpus) -> tuple[tuple[str, ...], tuple[Any, ...]]:
        return words_of(corpus)

    def read(self, corpus: Corpus, vocabulary: tuple[str, ...], outcomes: tuple[Any, ...]) -> Sequences:
        sequences = Sequences.of(corpus, vocabulary, outcomes)
        questions = sequences.targets.shape[1]
        if self.answers and questions != self.answers:
            raise RunError(
                f"{corpus!r} asks {questions} question{'s' if questions > 1 else ''} an example, and this model "
                f"gives {self.answers} answer{'s' if self.answers > 1 else ''}; train it on data like these"
            )
        return sequences


@dataclass(frozen=True)
class LoopedModel(SequenceModel):
    """Settings of a model that repeats one layer as often as the brackets are deep."""

    width: int = 128  # of the vectors
    inner: int = 256  # width of the hidden layer of the feed-forward network
    heads: int = 4  # of attention
    extra: int = 2  # steps beside those for the brackets
    per_level: float = 1.0  # steps for each level of brackets
    answers: int = 0  # of each example; 0: as many as the data ask for
    node_weight: float = 0.0  # weight in the loss of the values of all lists
    dropout: float = 0.0  # share of the units left out in training

    def __post_init__(self) -> None:
        if self.node_weight < 0:
            raise SpecError(f"node_weight = {self.node_weight}: must be 0 or more")

    def steps(self, nesting: Tensor) -> Tensor:
        """[batch]: how often the layer is repeated for texts of this nesting."""
        return self.extra + (self.per_level * nesting).ceil()

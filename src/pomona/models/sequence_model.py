"""What the models of sequences share: how they read a corpus, and which words they know."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pomona.base.errors import RunError
from pomona.data.corpus import Corpus
from pomona.models.inputs.sequences import Sequences, words_of
from pomona.models.model import Model


@dataclass(frozen=True)
class SequenceModel(Model):
    """A model that reads whole sequences; it knows the words and answers of the corpus that it is trained on."""

    example = "orchard/hard/min-max"
    answers: int = 2  # how many an example asks for

    def words(self, corpus: Corpus) -> tuple[tuple[str, ...], tuple[Any, ...]]:
        return words_of(corpus)

    def read(self, corpus: Corpus, vocabulary: tuple[str, ...], outcomes: tuple[Any, ...]) -> Sequences:
        sequences = Sequences.of(corpus, vocabulary, outcomes)
        questions = sequences.targets.shape[1]
        if questions != self.answers:
            raise RunError(
                f"{corpus!r} asks {questions} question{'s' if questions > 1 else ''} an example, and this model "
                f"answers {self.answers}; set answers={questions} when it is trained"
            )
        return sequences

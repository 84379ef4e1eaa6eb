"""What the models of sentences share: their settings and their classifier, as in the ListOps paper.

Two settings repeat what the paper's code does and its text does not say. Both are off by default.

    half_width         a "128D" model of trees has 64 numbers of h and 64 of c: the embedding is cut in two
    batch_layernorm    LayerNorm takes one mean and one deviation over the whole batch, not one for each row
"""

from __future__ import annotations

from dataclasses import dataclass

from pomona.models.layers.classifier import Classifier
from pomona.models.model import Model, Shape


@dataclass(frozen=True)
class SentenceModel(Model):
    """Settings of a model that reads a sentence and classifies it."""

    width: int = 128  # of the vectors
    hidden: int = 16  # units of each hidden layer of the classifier
    batch_layernorm: bool = False  # one mean and deviation for the whole batch, as in the ListOps paper's code

    def classifier(self, inputs: int, shape: Shape) -> Classifier:
        return Classifier(inputs, self.hidden, shape.classes, batch_layernorm=self.batch_layernorm)


@dataclass(frozen=True)
class SentenceTreeModel(SentenceModel):
    """Settings of a model that composes a sentence along a binary tree, with a TreeLSTM."""

    half_width: bool = False  # h and c have half the width each, as in the ListOps paper's code

    @property
    def size(self) -> int:
        """The size of h, and of c."""
        return self.width // 2 if self.half_width else self.width

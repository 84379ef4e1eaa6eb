"""What every model is: settings that build a module, and a module that reads a batch and gives an Output.

    @MODELS.add("mean")
    @dataclass(frozen=True)
    class Mean(Model):
        \"\"\"The mean of the embeddings.\"\"\"
        width: int = 64
        def build(self, shape): return MeanModule(self, shape)

A new model is one new file in `pomona.models.sentence`, `.pair` or `.sequence`. Its fields are its settings, and the
contract tests find it. A module draws its first weights from torch's generator, which training seeds for it, and
everything else from the generator that it is called with: `module(batch, random)`. Without a generator, and in
evaluation, it must not draw at all.

A model that reads anything else than sentences with one tree and one answer defines `read`: it turns a corpus into a
Feed of its own, whose batches its module is called with. Training uses nothing of them but `targets`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from pomona.base.arrays import Ints
from pomona.base.registry import Registry
from pomona.data.corpus import Corpus
from pomona.data.task import declared_first
from pomona.models import FOLDERS
from pomona.models.inputs.sentences import Sentences
from pomona.models.stages import Stage
from pomona.trees.forest import Forest


class Feed(Protocol):
    """A corpus in the numbers of one model."""

    @property
    def lengths(self) -> npt.NDArray[np.int64]:
        """The cost of each row; rows of like length are batched together."""

    @property
    def targets(self) -> npt.NDArray[np.int64]:
        """[rows] or [rows, answers]: positions among the outcomes; -1 where there is no answer."""

    def __len__(self) -> int: ...

    def batch(self, rows: Ints, device: torch.device | str = "cpu") -> Any:
        """What the module is called with: it has `rows`, and `targets` as a tensor."""


@dataclass(frozen=True)
class Shape:
    """What a module must know of its task: how many words and how many answers there are, and which, if it is told."""

    vocabulary: int
    classes: int
    words: tuple[str, ...] = ()
    answers: tuple[Any, ...] = ()


@dataclass(frozen=True, eq=False)
class Output:
    """What a model says of a batch.

    `trees` are the binary trees that it built, if any; `nodes` has a row for each of their nodes in post-order, or,
    without trees, for each token. `sentences` has a row for each example, for models in which neither the root nor the
    last token stands for the whole. All three are given in evaluation only. The loss is the cross entropy of the logits
    unless the module gives its own as `loss`; `penalty` is added to either. A module that asks for less than the batch
    does, in a stage, says so with `asked`: its targets, -1 where nothing is asked.
    """

    logits: Tensor  # [batch, classes] or [batch, answers, classes]
    trees: Forest | None = None
    nodes: Tensor | None = None
    sentences: Tensor | None = None
    penalty: Tensor | None = None
    loss: Tensor | None = None
    asked: Tensor | None = None  # [batch] or [batch, answers]


@dataclass(frozen=True)
class Model:
    """Settings of a model."""

    name: ClassVar[str]
    example: ClassVar[str] = "listops/d20s"  # a task that it can be trained on
    given_trees: ClassVar[bool] = False  # True if the trees of its output are the gold ones that it was given
    gpu: ClassVar[bool] = True  # False if it can be computed on the processor only
    answer_positions: ClassVar[int] = 1 << 13  # the most positions of a batch when answering
    stage_settings: ClassVar[type | None] = None  # a frozen dataclass: what a stage may tell `module.begin_stage`

    def words(self, corpus: Corpus) -> tuple[tuple[str, ...], tuple[Any, ...]]:
        """The words that the model knows and the answers it may give: those its task declares, then those of `corpus`,
        which it is trained on."""
        return declared_first(corpus, corpus.vocabulary, corpus.outcomes)

    def read(self, corpus: Corpus, vocabulary: tuple[str, ...], outcomes: tuple[Any, ...]) -> Feed:
        """The corpus in the numbers of the model."""
        return Sentences.of(corpus, vocabulary, outcomes)

    def asking(self, answers: int) -> Model:
        """The model for data that ask for this many answers an example; most models do not depend on it."""
        return self

    def evidence(self, train: Corpus, dev: Corpus) -> dict[str, Any]:
        """The evidence that dev is held out as the task demands; kept in the run as certificate.json."""
        return {}

    def stages(self) -> tuple[Stage, ...]:
        """The stages that it is trained in, unless a recipe lists others; most models have none."""
        return ()

    def build(self, shape: Shape) -> nn.Module:
        raise NotImplementedError(f"{type(self).__name__} must define build(shape)")


MODELS: Registry[Model] = Registry("model", *FOLDERS)


@contextmanager
def threads_of(count: int) -> Iterator[None]:
    """Torch computes with this many threads inside the block, and with as many as before afterwards.

    Numbers below 1.2e-38 are taken for 0 there. L2 shrinks weights that nothing needs to such *denormal* numbers, and
    products with them take some processors 160 times as long.
    """
    before, flushed = torch.get_num_threads(), _flushes_denormals()
    torch.set_num_threads(count)
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_num_threads(before)
        torch.set_flush_denormal(flushed)


def _flushes_denormals() -> bool:
    return float(torch.tensor(1.5e-38) * 0.5) == 0.0


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Seed torch's own generator inside the block; afterwards it is in the same state as before."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield

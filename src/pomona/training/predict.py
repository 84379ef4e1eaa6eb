"""What a trained run says of a corpus: its answers and trees, or a vector for each example.

predict(run, corpus).answers             # [rows]: positions among the run's outcomes
represent(run, corpus)                   # [rows, width]: the vectors that are classified
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from pomona.base.errors import RunError
from pomona.data.corpus import Corpus
from pomona.models.inputs.batches import by_length
from pomona.models.model import Feed, Output, threads_of
from pomona.training.checkpoints import load
from pomona.training.predictions import Predictions
from pomona.training.recipe import Recipe
from pomona.training.run import Run
from pomona.trees.forest import Forest, gather

ANSWER_ROWS, ANSWER_AREA = 512, 1 << 13  # the most rows and positions of a batch when answering

Floats32 = npt.NDArray[np.float32]


def predict(run: Run, corpus: Corpus, *, which: str = "best", device: str = "cpu", threads: int = 1) -> Predictions:
    """The answers of a trained run on any corpus; `which` weights: `best` on dev, or `last`."""
    module, vocabulary, outcomes, model = load(run, which)
    feed = model.read(corpus, vocabulary, outcomes)
    with threads_of(threads), memory_errors(run.recipe):
        logits, trees = answer(module.to(device), answer_batches(feed, device, model.answer_positions))
    return Predictions(corpus.fingerprint, outcomes, logits, trees, vocabulary)


def represent(run: Run, corpus: Corpus, *, which: str = "best", device: str = "cpu", threads: int = 1) -> Floats32:
    """A vector for each example, [rows, width]: the one that the model gives for it, or else the vector of its root, or
    else that of its last token."""
    module, vocabulary, outcomes, model = load(run, which)
    feed = model.read(corpus, vocabulary, outcomes)
    batches = answer_batches(feed, device, model.answer_positions)
    with threads_of(threads), memory_errors(run.recipe), torch.no_grad():
        module.to(device).eval()
        vectors = [_vectors(run.recipe, batch, module(batch)) for batch in batches]
    return np.concatenate(vectors)[_order_of_corpus(batches)]


def represent_nodes(run: Run, corpus: Corpus, *, which: str = "best", threads: int = 1) -> tuple[Forest, Floats32]:
    """The trees that a model composes over a corpus, one for each example, and a vector for each of their nodes."""
    module, vocabulary, outcomes, model = load(run, which)
    batches = answer_batches(model.read(corpus, vocabulary, outcomes), "cpu")
    trees, vectors = [], []
    with threads_of(threads), memory_errors(run.recipe), torch.no_grad():
        module.eval()
        for batch in batches:
            output = module(batch)
            if output.trees is None or output.nodes is None or len(output.nodes) != len(output.trees.symbol):
                raise RunError(f"{run.recipe.model} gives no vector for each node of a tree; models of trees do")
            trees.append(output.trees)
            vectors.append(output.nodes.float().cpu().numpy())
    forest, order = Forest.concatenate(trees), _order_of_corpus(batches)
    return forest[order], np.concatenate(vectors)[gather(forest.start, order)[1]]


def _vectors(recipe: Recipe, batch: Any, output: Output) -> Floats32:
    """The vectors of one batch, [rows, width]."""
    vectors = output.sentences
    if vectors is None:
        if output.nodes is None or len(output.nodes) < len(batch.rows):
            raise RunError(f"{recipe.model} gives no vectors of what it reads; models of trees and of tokens do")
        ends = batch.start if output.trees is None else output.trees.start
        vectors = output.nodes[torch.from_numpy(np.asarray(ends[1:]) - 1)]
    return np.asarray(vectors.float().cpu().numpy(), np.float32)


def answer(module: nn.Module, batches: list[Any]) -> tuple[Floats32, Forest | None]:
    """The logits of every row, and the trees that were built, in the order of the corpus.

    Batches keep what is computed for them once (the schedules of their trees), so call this with the same ones again.
    """
    module.eval()
    logits, trees = [], []
    with torch.no_grad():
        for batch in batches:
            output = module(batch)
            logits.append(output.logits.float().cpu().numpy())
            trees.append(output.trees)
    order = _order_of_corpus(batches)
    forest = None if trees[0] is None else Forest.concatenate(trees)[order]
    return np.concatenate(logits)[order], forest


def answer_batches(feed: Feed, device: torch.device | str, positions: int = ANSWER_AREA) -> list[Any]:
    """All rows, those of like length together; `positions` is the most that a batch may have."""
    return [feed.batch(rows, device) for rows in by_length(feed.lengths, ANSWER_ROWS, positions)]


def _order_of_corpus(batches: list[Any]) -> npt.NDArray[np.int64]:
    """Where each row of the corpus stands among the rows of these batches."""
    return np.argsort(np.concatenate([batch.rows for batch in batches]), kind="stable")


@contextmanager
def memory_errors(recipe: Recipe) -> Iterator[None]:
    """Say which settings to lower when there is not enough memory."""
    try:
        yield
    except (MemoryError, torch.cuda.OutOfMemoryError) as error:
        raise RunError(_too_large(recipe)) from error
    except RuntimeError as error:
        if "can't allocate memory" in str(error):
            raise RunError(_too_large(recipe)) from error
        raise


def _too_large(recipe: Recipe) -> str:
    return f"{recipe.model} does not fit into memory with batch = {recipe.batch}, longest = {recipe.longest}; lower one"

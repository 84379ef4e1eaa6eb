"""What a trained run says of a corpus."""

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
from pomona.models.model import Feed, threads_of
from pomona.training.checkpoints import load, model_of
from pomona.training.predictions import Predictions
from pomona.training.recipe import Recipe
from pomona.training.run import Run
from pomona.trees.forest import Forest

ANSWER_ROWS, ANSWER_AREA = 512, 1 << 13  # rows and positions of a batch when answering


def answer(module: nn.Module, batches: list[Any]) -> tuple[npt.NDArray[np.float32], Forest | None]:
    """Logits of every row, and the trees built, in the order of the corpus. Batches keep their plans for next time."""
    module.eval()
    order = np.concatenate([batch.rows for batch in batches])
    logits, trees = [], []
    with torch.no_grad():
        for batch in batches:
            output = module(batch)
            logits.append(output.logits.float().cpu().numpy())
            trees.append(output.trees)
    back = np.argsort(order, kind="stable")
    forest = None if trees[0] is None else Forest.concatenate(trees)[back]
    return np.concatenate(logits)[back], forest


def answer_batches(feed: Feed, device: torch.device | str) -> list[Any]:
    return [feed.batch(rows, device) for rows in by_length(feed.lengths, ANSWER_ROWS, ANSWER_AREA)]


def predict(run: Run, corpus: Corpus, *, which: str = "best", device: str = "cpu", threads: int = 1) -> Predictions:
    """What a trained run says of any corpus."""
    module, vocabulary, outcomes = load(run, which)
    feed = model_of(run.recipe).read(corpus, vocabulary, outcomes)
    with threads_of(threads), memory_errors(run.recipe):
        logits, trees = answer(module.to(device), answer_batches(feed, device))
    return Predictions(corpus.fingerprint, outcomes, logits, trees, vocabulary)


def represent(
    run: Run, corpus: Corpus, *, which: str = "best", device: str = "cpu", threads: int = 1
) -> npt.NDArray[np.float32]:
    """A vector for each sentence, [rows, width]: what the model gives for it, else its root, else its last token."""
    module, vocabulary, outcomes = load(run, which)
    feed = model_of(run.recipe).read(corpus, vocabulary, outcomes)
    found: list[npt.NDArray[np.float32]] = []
    batches = answer_batches(feed, device)
    with threads_of(threads), memory_errors(run.recipe), torch.no_grad():
        module.to(device).eval()
        for batch in batches:
            output = module(batch)
            if output.sentences is not None:
                found.append(output.sentences.float().cpu().numpy())
                continue
            if output.nodes is None or len(output.nodes) < len(batch.rows):
                raise RunError(f"{run.recipe.model} gives no vectors of what it reads; a model of trees or tokens does")
            ends = batch.start if output.trees is None else output.trees.start
            found.append(output.nodes[torch.from_numpy(np.asarray(ends[1:]) - 1)].float().cpu().numpy())
    back = np.argsort(np.concatenate([batch.rows for batch in batches]), kind="stable")
    return np.concatenate(found)[back]


@contextmanager
def memory_errors(recipe: Recipe) -> Iterator[None]:
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

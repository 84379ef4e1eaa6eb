"""The corpora of a recipe."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt

from pomona.base.errors import RunError
from pomona.base.randomness import stream_key
from pomona.data import formats
from pomona.data.corpus import Corpus
from pomona.data.sources import data_file
from pomona.data.task import TASKS, generate
from pomona.training.recipe import Recipe


def corpora(recipe: Recipe) -> tuple[Corpus, Corpus]:
    """The training corpus of a recipe and the one its weights are chosen on."""
    if Path(recipe.data).is_file():
        whole = formats.read(recipe.data)
        order = np.random.Generator(np.random.Philox(key=int(stream_key("hold out", recipe.data_seed))))
        rows = order.permutation(len(whole))
        train, dev = whole.take(np.sort(rows[recipe.dev_rows :])), whole.take(np.sort(rows[: recipe.dev_rows]))
        train = train[: recipe.rows] if recipe.rows is not None else train
    else:
        chosen_on = "test" if "test_selection" in recipe.fidelity else "dev"
        train = generate(recipe.data, "train", recipe.data_seed, recipe.rows, **recipe.data_settings)
        dev = generate(recipe.data, chosen_on, recipe.data_seed, **recipe.data_settings)[: recipe.dev_rows]
    train, dev = _admitted(train, recipe), _without(dev, _excluded(recipe))
    for name, corpus in (("train", train), ("dev", dev)):
        if not len(corpus):
            raise RunError(
                f"no example is left for {name} from {recipe.data} "
                f"(longest = {recipe.longest}, rows = {recipe.rows}, dev_rows = {recipe.dev_rows})"
            )
    return train, dev


def fresh_corpus(recipe: Recipe, epoch: int, held_out: npt.NDArray[np.uint64]) -> Corpus:
    """The examples of a later epoch of a recipe with `fresh`, without those whose keys are held out."""
    seed = int(stream_key("fresh", recipe.data_seed, epoch)) >> 1
    drawn = generate(recipe.data, "train", seed, recipe.rows, **recipe.data_settings)
    return _admitted(_without(drawn, held_out), recipe)


def held_out_keys(recipe: Recipe, dev: Corpus) -> npt.NDArray[np.uint64]:
    """Keys of dev and of every test split: what a fresh draw must leave out, since it knows nothing of the splits."""
    if Path(recipe.data).is_file():
        raise RunError(
            f"{recipe.data} is a file, and no fresh examples can be drawn from it; name a task or fresh=false"
        )
    task = TASKS.build(recipe.data, recipe.data_settings)
    others = [split for split in task.sizes if split not in ("train", "dev")]
    return np.concatenate([dev.keys, *(generate(task, split, recipe.data_seed).keys for split in others)])


def _admitted(train: Corpus, recipe: Recipe) -> Corpus:
    """What of a draw may be trained on."""
    train = _without(train, _excluded(recipe))
    return train if recipe.longest is None else train[train.lengths <= recipe.longest]


def _excluded(recipe: Recipe) -> npt.NDArray[np.uint64]:
    keys = [formats.read(data_file(path)).keys for path in recipe.exclude]
    return np.concatenate(keys) if keys else np.zeros(0, np.uint64)


def _without(corpus: Corpus, keys: npt.NDArray[np.uint64]) -> Corpus:
    found: Corpus = corpus[~np.isin(corpus.keys, keys)] if len(keys) else corpus
    return found

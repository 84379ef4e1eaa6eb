"""The corpora that a recipe names: what is trained on, and what the weights are chosen on.

train, dev = corpora(recipe)
fresh_corpus(recipe, epoch, held_out_keys(recipe, dev))      # new examples for a later epoch, with fresh=True
"""

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

Keys = npt.NDArray[np.uint64]


def corpora(recipe: Recipe) -> tuple[Corpus, Corpus]:
    """The training corpus of a recipe, and the corpus that its weights are chosen on."""
    if Path(recipe.data).is_file():
        train, dev = _split(formats.read(recipe.data), recipe)
    else:
        task = TASKS.build(recipe.data, recipe.data_settings)
        train = generate(task, "train", recipe.data_seed, recipe.rows)
        dev = generate(task, recipe.select_on, recipe.data_seed)[: recipe.dev_rows]
    train, dev = _admitted(train, recipe), _without(dev, _excluded(recipe))
    for name, corpus in (("train", train), ("dev", dev)):
        if not len(corpus):
            raise RunError(
                f"no example is left for {name} from {recipe.data} "
                f"(longest = {recipe.longest}, rows = {recipe.rows}, dev_rows = {recipe.dev_rows})"
            )
        if corpus.targets.max(initial=-1) < 0:
            raise RunError(f'{corpus!r} has no answers, so nothing can be learnt of it; give its rows a "target"')
    return train, dev


def _split(corpus: Corpus, recipe: Recipe) -> tuple[Corpus, Corpus]:
    """The rows of a file, `dev_rows` of them drawn at random for dev; of a file that has no more, a tenth."""
    random = np.random.Generator(np.random.Philox(key=int(stream_key("hold out", recipe.data_seed))))
    rows = random.permutation(len(corpus))
    held = recipe.dev_rows if len(corpus) > recipe.dev_rows else -(-len(corpus) // 10)
    train, dev = corpus.take(np.sort(rows[held:])), corpus.take(np.sort(rows[:held]))
    return train[: recipe.rows] if recipe.rows is not None else train, dev


def fresh_corpus(recipe: Recipe, epoch: int, held_out: Keys) -> Corpus:
    """New training examples for a later epoch, without those whose keys are held out."""
    seed = int(stream_key("fresh", recipe.data_seed, epoch)) >> 1
    drawn = generate(TASKS.build(recipe.data, recipe.data_settings), "train", seed, recipe.rows)
    return _admitted(_without(drawn, held_out), recipe)


def held_out_keys(recipe: Recipe, dev: Corpus) -> Keys:
    """The keys of dev and of every test split. A fresh draw leaves them out, since it does not know the splits."""
    if Path(recipe.data).is_file():
        raise RunError(
            f"{recipe.data} is a file, and no fresh examples can be drawn from it; name a task or set fresh=false"
        )
    task = TASKS.build(recipe.data, recipe.data_settings)
    others = [split for split in task.sizes if split not in ("train", "dev")]
    return np.concatenate([dev.keys, *(generate(task, split, recipe.data_seed).keys for split in others)])


def _admitted(train: Corpus, recipe: Recipe) -> Corpus:
    """The examples of a draw that may be trained on."""
    train = _without(train, _excluded(recipe))
    return train if recipe.longest is None else train[train.lengths <= recipe.longest]


def _excluded(recipe: Recipe) -> Keys:
    keys = [formats.read(data_file(path)).keys for path in recipe.exclude]
    return np.concatenate(keys) if keys else np.zeros(0, np.uint64)


def _without(corpus: Corpus, keys: Keys) -> Corpus:
    rest: Corpus = corpus[~np.isin(corpus.keys, keys)] if len(keys) else corpus
    return rest

"""The corpora that a recipe names: what is trained on, and what the weights are chosen on.

train, dev = corpora(recipe)
fresh_corpus(recipe, epoch, held_out_keys(recipe, dev))      # new examples for a later epoch, with fresh=True
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from pomona.base.errors import RunError
from pomona.base.randomness import stream_key
from pomona.data import formats
from pomona.data.corpus import Corpus
from pomona.data.row_checks import line_of
from pomona.data.sources import corpus_from, data_file, source_kind
from pomona.data.task import TASKS, generate
from pomona.training.recipe import Recipe

Keys = npt.NDArray[np.uint64]


def corpora(recipe: Recipe) -> tuple[Corpus, Corpus]:
    """The training corpus of a recipe, and the corpus that its weights are chosen on."""
    kind = source_kind(recipe.data)
    if kind == "file" and not recipe.dev:
        train, dev = _split(formats.read(recipe.data), recipe)
    else:
        train = _training(recipe)
        if recipe.dev:
            dev = corpus_from(recipe.dev)
            _refuse_shared(train, dev, recipe)
        else:
            dev = corpus_from(recipe.data, split=recipe.select_on, **_drawn(recipe))
        dev = dev[: recipe.dev_rows]
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


def training_corpus(recipe: Recipe) -> Corpus:
    """The training corpus of a recipe alone; with `fresh`, that of the first epoch."""
    if source_kind(recipe.data) == "file" and not recipe.dev:
        return corpora(recipe)[0]
    return _admitted(_training(recipe), recipe)


def _training(recipe: Recipe) -> Corpus:
    """The rows that may be trained on, of a task, a folder or a whole file."""
    if source_kind(recipe.data) == "task":  # which may give more rows than it says
        return generate(TASKS.build(recipe.data, recipe.data_settings), "train", recipe.data_seed, recipe.rows)
    split = "train" if source_kind(recipe.data) == "folder" else ""
    return corpus_from(recipe.data, split=split, size=recipe.rows)


def _drawn(recipe: Recipe) -> dict[str, Any]:
    """How a recipe draws examples from a task; nothing for a folder, whose examples are there already."""
    is_task = source_kind(recipe.data) == "task"
    return {"seed": recipe.data_seed, "settings": recipe.data_settings} if is_task else {}


def _refuse_shared(train: Corpus, dev: Corpus, recipe: Recipe) -> None:
    """An error if the file that weights are chosen on holds training examples."""
    shared = np.flatnonzero(np.isin(dev.keys, train.keys))
    if len(shared):
        first = line_of(dev, int(shared[0]))
        raise RunError(
            f"{len(shared):,} of the {len(dev):,} examples of {recipe.dev} are also in {recipe.data}, the first on "
            f"line {first}: weights are chosen on examples that are not trained on"
        )


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
    kind = source_kind(recipe.data)
    if kind != "task":
        raise RunError(
            f"{recipe.data} is a {kind}, and no fresh examples can be drawn from it; name a task or set fresh=false"
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

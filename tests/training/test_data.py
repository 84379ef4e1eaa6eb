"""The corpora of a recipe: dev is held out, exclusions hold, and every epoch may have examples of its own."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from pomona.base.errors import RunError
from pomona.base.randomness import stream_key
from pomona.data import formats
from pomona.data.task import generate
from pomona.training.data import corpora, fresh_corpus, held_out_keys
from pomona.training.loop import train
from pomona.training.recipe import Recipe
from training_material import SMALL, Killed, assert_same_bits


def test_no_example_left_is_an_error(tmp_path):
    with pytest.raises(RunError, match=r"no example is left for train from listops/d20s \(longest = 1"):
        train(dataclasses.replace(SMALL, longest=1, rows=5), tmp_path / "run")


def test_training_on_a_file_holds_out_dev_and_leaves_out_what_is_excluded(tmp_path):
    corpus = generate("listops/d20s", split="train", train=300, dev=5, test=5)
    path, test = tmp_path / "train.tsv", tmp_path / "test.tsv"
    formats.write(corpus, path)
    formats.write(corpus[:40], test)
    kept, dev = corpora(Recipe("lstm", data=str(path), dev_rows=60, exclude=(str(test),)))
    assert len(kept) + len(dev) == 260
    assert not set(kept.keys.tolist()) & set(dev.keys.tolist())
    assert not set(kept.keys.tolist()) & set(corpus[:40].keys.tolist())


def test_fresh_examples_every_epoch_and_none_of_them_held_out(tmp_path):
    """Each epoch has its own draw, without dev and test; killed and resumed it ends with the same bits."""
    few = {"train": 300, "dev": 200, "test": 200}
    recipe = Recipe("lstm", {"width": 8}, data_settings=few, dev_rows=200, epochs=3, fresh=True, longest=30)
    first, dev = corpora(recipe)
    held_out = held_out_keys(recipe, dev)
    test = generate("listops/d20s", "test", 0, **few)
    assert set(held_out.tolist()) == set(dev.keys.tolist()) | set(test.keys.tolist())
    draws = [first, *(fresh_corpus(recipe, epoch, held_out) for epoch in (1, 2))]
    for number, draw in enumerate(draws):
        assert draw.lengths.max() <= 30
        assert not np.isin(draw.keys, held_out).any()
        assert all(np.isin(draw.keys, other.keys).mean() < 0.5 for other in draws[:number])
    everything = generate("listops/d20s", "train", int(stream_key("fresh", 0, 1)) >> 1, **few)
    kept = fresh_corpus(recipe, 1, everything.keys[:50])
    assert not np.isin(kept.keys, everything.keys[:50]).any()
    whole = train(recipe, tmp_path / "whole")

    def kill(progress):
        if progress.epoch == 1 and progress.step % 2:
            raise Killed

    with pytest.raises(Killed):
        train(recipe, tmp_path / "parts", save_every=0, progress=kill)
    assert_same_bits(train(recipe, tmp_path / "parts"), whole)
    file = tmp_path / "data.tsv"
    formats.write(first, file)
    with pytest.raises(RunError, match="no fresh examples"):
        train(dataclasses.replace(recipe, data=str(file), data_settings={}, dev_rows=20), tmp_path / "file")


def test_a_tenth_of_a_small_file_is_dev(tmp_path):
    path = tmp_path / "small.ptb"
    path.write_text("".join(f"({row % 3} (1 w{row}) (2 v))\n" for row in range(25)))
    train, dev = corpora(Recipe("lstm", data=str(path)))
    assert (len(train), len(dev)) == (22, 3)
    assert not set(train.texts) & set(dev.texts)
    train, dev = corpora(Recipe("lstm", data=str(path), dev_rows=24))
    assert (len(train), len(dev)) == (1, 24)


def test_data_without_answers_are_refused_before_training(tmp_path):
    path = tmp_path / "labels.ptb"
    path.write_text("(S a b)\n(S b c)\n(S c d)\n")
    with pytest.raises(RunError, match="has no answers, so nothing can be learnt of it"):
        corpora(Recipe("lstm", data=str(path), dev_rows=1))

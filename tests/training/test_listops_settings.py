"""The settings that repeat what the ListOps code does change what they should, and nothing when they are off."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch

from pomona.data.task import generate
from pomona.models.inputs.sentences import Batch, Sentences
from pomona.training.checkpoints import build
from pomona.training.data import corpora
from pomona.training.recipe import Recipe
from training_material import SMALL


def test_the_papers_quirks_change_what_they_say(tmp_path):
    plain, half = (
        build(dataclasses.replace(SMALL, settings={"width": 8, "half_width": flag}), ("a",) * 15, tuple(range(10)))
        for flag in (False, True)
    )
    assert plain.leaf.shape[1] == 2 * half.leaf.shape[1]
    chosen = corpora(dataclasses.replace(SMALL, select_on="test"))[1]
    test = generate("listops/d20s", split="test", train=400, dev=50, test=50)
    assert chosen.fingerprint == test.fingerprint != corpora(SMALL)[1].fingerprint


@pytest.mark.parametrize("name", ["left_padding", "batch_layernorm"])
def test_quirks_of_the_papers_code_change_what_they_should(name):
    """With them on, an answer depends on what else is in the batch; that is why they are off."""
    corpus = generate("listops/d20s", split="train", train=300, dev=5, test=5)
    sentences = Sentences.of(corpus, corpus.vocabulary, corpus.outcomes)
    rows = np.argsort(sentences.lengths)[[10, 250]]
    for flag in (False, True):
        recipe = Recipe("lstm", {"width": 8, name: flag})
        module = build(recipe, corpus.vocabulary, corpus.outcomes).double().eval()
        alone, together = (module(Batch.of(sentences, some)).logits[0] for some in (rows[:1], rows))
        assert torch.allclose(alone, together, rtol=0, atol=1e-9) != flag

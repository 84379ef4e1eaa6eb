"""Modules and what they say: first weights depend on the seed, vectors are those that are classified."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch

from pomona.data.task import generate
from pomona.training.checkpoints import build, load
from pomona.training.loop import train
from pomona.training.predict import predict, represent
from training_material import SMALL


def test_first_weights_depend_on_the_seed_alone():
    words, outcomes = tuple("abc"), tuple(range(10))
    torch.manual_seed(1)
    one = build(SMALL, words, outcomes)
    torch.manual_seed(2)
    two = build(SMALL, words, outcomes)
    assert all(torch.equal(a, b) for a, b in zip(one.parameters(), two.parameters(), strict=True))


@pytest.mark.parametrize("model", ["lstm", "bilstm", "treelstm"])
def test_the_vector_of_a_sentence_is_what_is_classified(tmp_path, model):
    run = train(dataclasses.replace(SMALL, model=model, epochs=1, rows=40), tmp_path / "run")
    corpus = generate("listops/d20s", split="test", train=400, dev=50, test=50)
    module = load(run)[0].eval()
    with torch.no_grad():
        logits = module.classifier(torch.from_numpy(represent(run, corpus))).numpy()
    assert np.allclose(logits, predict(run, corpus).logits, atol=1e-5)

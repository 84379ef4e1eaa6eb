"""Baselines beside a score: one rule for what they learn from, the same in commands and reports."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import pomona as pm
from pomona.data.answers import Answers
from pomona.evaluation.baselines import Baselines, learning_examples
from pomona.reports.collect import collect
from pomona.reports.inputs import gather
from pomona.shortcuts.effective_depth import effective_depth
from pomona.training.recipe import Recipe
from report_material import SMALL, add_run, said, small_test


def recipe(train: int, seed: int = 0) -> Recipe:
    return Recipe("lstm", data_settings={**SMALL, "train": train}, data_seed=seed)


@pytest.fixture
def plain(tmp_path: Path) -> pm.Corpus:
    """A test set in a format that does not say which task made it."""
    pm.write(small_test(), tmp_path / "test.tsv")
    return pm.read(tmp_path / "test.tsv")


def test_the_task_that_made_a_corpus_comes_first() -> None:
    corpus = small_test()
    train = pm.generate("listops/d20s", "train", 0, **SMALL)
    for recipes in ([], [recipe(100)], [recipe(900, 5)]):
        found = learning_examples(corpus, recipes)
        assert found is not None
        assert found.fingerprint == train.fingerprint  # the whole of it
    assert learning_examples(corpus[:10]).fingerprint == train.fingerprint  # type: ignore[union-attr]


def test_else_the_largest_train_split_of_the_runs(plain: pm.Corpus) -> None:
    assert learning_examples(plain) is None
    unknown = Recipe("lstm", data="no/such/task")
    assert learning_examples(plain, [unknown]) is None
    found = learning_examples(plain, [recipe(100, 3), unknown, recipe(300, 4), recipe(200, 5)])
    assert found is not None
    train = pm.generate("listops/d20s", "train", 4, **{**SMALL, "train": 300})
    kept = train[~np.isin(train.keys, plain.keys)]
    assert found.fingerprint == kept.fingerprint


def test_examples_of_the_corpus_itself_teach_nothing() -> None:
    train = pm.generate("listops/d20s", "train", 0, **SMALL)
    part = train.take(np.arange(0, 400, 4))
    found = learning_examples(part)
    assert found is not None
    assert len(found) == 300
    assert not np.isin(found.keys, part.keys).any()


def test_depths_are_those_of_each_question() -> None:
    corpus = pm.generate("orchard/easy/min-max", "train", 1, train=120, dev=5, test=5, iid=5)
    given = corpus.targets.astype(np.int64).copy()
    given[::2, 1] = -1
    texts = [[None if at < 0 else corpus.outcomes[at] for at in row] for row in given.tolist()]
    skewed = corpus[corpus.targets[:, 0] < 3][:20]  # so little teaches other priors than the other half does
    kinds = []
    for train in (None, skewed):
        depths = Baselines(corpus, train, train_depth=3).depths(given)
        for question, depth in enumerate(depths):
            direct = effective_depth(corpus, texts, train=train, question=question, train_depth=3)
            assert depth.as_dict() == direct.as_dict()
        kinds += [str(depth.as_dict()) for depth in depths]
    assert len(set(kinds)) == 4


def test_reports_and_evaluations_have_the_same_baselines(tmp_path: Path, plain: pm.Corpus) -> None:
    """A run on a file that names no task: the report and `evaluate` learn from the run's task alike."""
    predictions = said(plain, 0.6, 1)
    run = add_run(tmp_path / "run", Recipe("lstm", data_settings=SMALL), plain, predictions)
    (test,) = collect(gather([tmp_path / "run"]), [str(tmp_path / "test.tsv")]).tests
    direct = Baselines(plain, learning_examples(plain, [run.recipe]))
    assert test.ladder.as_dict() == direct.ladder.as_dict()  # type: ignore[union-attr]
    (entry,) = test.entries
    given = np.asarray(entry.evaluation.given)  # type: ignore[union-attr]
    assert entry.scores["effective_depth"] == [depth.as_dict() for depth in direct.depths(given)]
    evaluation = pm.evaluate(Answers("same", given), plain, train=direct.train)
    shown = {key: value for key, value in entry.scores.items() if key != "name"}
    assert shown == {key: value for key, value in evaluation.as_dict().items() if key != "name"}

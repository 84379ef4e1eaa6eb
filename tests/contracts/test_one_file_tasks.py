"""Tasks with values of any type, each in one file: generated, written, verified, certified, laddered, measured."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pomona as pm
from pomona.base.errors import FormatError
from pomona.data.answers import Answers, read_answers, write_answers
from pomona.shortcuts.effective_depth import EVERYTHING, effective_depth
from pomona.shortcuts.ladder import evaluations, ladder

one_file_xor = importlib.import_module("one_file_xor")
one_file_rewriting = importlib.import_module("one_file_rewriting")
TASKS = {"nested_xor/small": one_file_xor, "rewriting/small": one_file_rewriting}

pytestmark = pytest.mark.parametrize("name", TASKS)


def value_of(tree: Any, name: str) -> Any:
    """The slow twin of both tasks."""
    if isinstance(tree, str):
        return tree if name.startswith("nested_xor") else tuple(tree)
    operator, *below = tree
    values = [value_of(child, name) for child in below]
    if operator == "XOR":
        return "FT"[sum(value == "T" for value in values) % 2]
    if operator == "AND":
        return "T" if values == ["T"] * len(values) else "F"
    if operator == "JOIN":
        return sum(values, ())[:4]
    if operator == "TURN":
        return tuple(reversed(values[0]))
    return tuple({"a": "b", "b": "a", "c": "c"}[symbol] for symbol in values[0])


def test_one_file_is_short(name: str) -> None:
    assert len(inspect.getsource(TASKS[name]).splitlines()) <= 40


def test_generated_and_verified(name: str, tmp_path: Path) -> None:
    splits = {split: pm.generate(name, split=split) for split in ("train", "test")}
    for split, corpus in splits.items():
        for example in corpus[:50]:
            assert example.target == (value_of(example.trees.nested()[0], name),)
        for suffix in ("jsonl", "parquet"):
            path = pm.write(corpus, tmp_path / f"{split}.{suffix}")
            assert pm.read(path).fingerprint == corpus.fingerprint
            assert pm.read(path)[0].target == corpus[0].target
        with pytest.raises(FormatError, match="parquet and jsonl hold anything"):
            pm.write(corpus, tmp_path / "refused.tsv")
    found = pm.verify(tmp_path)
    assert found.holds, found.problems[:3]
    assert found.unchecked == ()
    certificate = pm.certify(splits["train"], splits["test"])
    certificate.save(tmp_path / "certificate.json")
    assert pm.Certificate.load(tmp_path / "certificate.json") == certificate
    assert pm.fairness.check(certificate, splits["train"], splits["test"])


def test_wrong_answers_are_found(name: str, tmp_path: Path) -> None:
    corpus = pm.generate(name, split="test")
    path = pm.write(corpus, tmp_path / "test.jsonl")
    other = next(row for row in range(1, len(corpus)) if corpus[row].target != corpus[0].target)
    lines = path.read_text().splitlines()
    mine, theirs = (line.partition('"tree"')[0].partition('"target": ')[2] for line in (lines[0], lines[other]))
    assert mine != theirs
    lines[0] = lines[0].replace(f'"target": {mine}', f'"target": {theirs}')
    parquet = tmp_path / "wrong.parquet"
    path.write_text("\n".join(lines) + "\n")
    wrong = pm.read(path)
    pm.write(dataclasses.replace(wrong, origin=corpus.origin, lines=None), parquet)
    (problem,) = pm.verify(parquet).problems
    assert (problem.line, problem.kind) == (1, "wrong answer")
    assert problem.message == f"the file says {corpus[other].target[0]}, the rules give {corpus[0].target[0]}"


def test_laddered_and_effective_depth_measured(name: str) -> None:
    train, test = pm.generate(name), pm.generate(name, split="test")
    deepest = int(test.nesting.max())
    made = ladder(test, train, levels=deepest)
    accuracies = [made[f"top {level} level{'s' if level != 1 else ''}"].accuracy for level in range(deepest + 1)]
    assert accuracies[0] < accuracies[2] < accuracies[-1] == 1.0
    answers = evaluations(test, train, deepest + 1)
    for level in (1, 2):
        said = [test.outcomes[answer] if answer >= 0 else "?" for answer in answers[:, 0, level].tolist()]
        found = effective_depth(test, said, train=train, levels=deepest + 1)
        assert found.depth == level
        assert found.agreement[level] == pytest.approx(np.mean(answers[:, 0, level] >= 0))
    right = [example.target[0] for example in test]
    assert effective_depth(test, right, train=train).depth == EVERYTHING


def test_answers_are_read_back(name: str, tmp_path: Path) -> None:
    """A file of answers may hold values of any kind."""
    corpus = pm.generate(name, split="test")[:40]
    answers = Answers("mine", corpus.targets[::-1].astype(np.int64))
    path = write_answers(corpus, answers, tmp_path / "answers.jsonl")
    np.testing.assert_array_equal(read_answers(path, corpus).given, corpus.targets[::-1])


def test_dependency_depth(name: str) -> None:
    corpus = pm.generate(name, split="test")
    if name.startswith("rewriting"):
        assert corpus.dependency.tolist() == corpus.nesting.tolist()  # every argument decides
    else:
        assert (corpus.dependency < corpus.nesting).any()  # one F decides an AND
    assert (corpus.dependency <= corpus.nesting).all()

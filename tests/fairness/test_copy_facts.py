"""Certificates for ORCHARD: what a COPY's argument stands for is a fact, and indices that training lacks are named."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import oracles_orchard as oracle
import pomona as pm
from pomona.base.errors import FairnessError
from pomona.cli.main import app
from pomona.data.task import TASKS
from pomona.fairness import Certificate, certify, check, compose_values, learn, minimal, mirror
from pomona.fairness.copies import addresses
from pomona.tasks.orchard.text import parse
from pomona.trees.links import copy_arguments

OPERATORS = ("MIN", "MAX")
SMALL: dict[str, Any] = {"train": 800, "dev": 10, "test": 150, "iid": 10, "operators": OPERATORS}


def orchard(split: str, **settings: Any) -> pm.Corpus:
    return pm.generate(TASKS.build("orchard", {**SMALL, **settings}), split=split, seed=6)


def written(*lines: str) -> pm.Corpus:
    return parse("".join(line + "\n" for line in lines).encode(), path="lines")


def arguments(text: str) -> list[int]:
    """The indices that a line copies, by the oracle's own reader."""
    return [node[1] for tree in oracle.parse(text) for node in oracle.level_order(tree) if node[0] == "COPY"]


def known_by(corpus: pm.Corpus) -> set[int]:
    return {index for text in corpus.texts for index in arguments(text)}


CASES: dict[str, dict[str, Any]] = {
    "hard": {},
    "medium, positions": {"copying": 0.5, "operators": ("FIRST", "LAST")},
    "three trees": {"trees": 3, "tested": (3, 8)},
    "digits": {"copies": "digits"},
}


@pytest.fixture(params=list(CASES))
def settings(request: pytest.FixtureRequest) -> dict[str, Any]:
    return CASES[request.param]


def test_new_indices_are_the_difference_of_two_sets(settings: dict[str, Any]) -> None:
    """By reading the lines one by one; by depth as well, with how many examples and COPYs have them."""
    train, test = (
        orchard("train", **settings),
        pm.Corpus.concatenate([orchard(f"test-{n}", **settings) for n in (3, 8)]),
    )
    certificate = certify(train, test)
    known = known_by(train)
    assert set(certificate.new_indices) == known_by(test) - known != set()
    assert [one.depth for one in certificate.copies] == [3, 8]
    for one in certificate.copies:
        lists = [arguments(text) for text in test[test.nesting == one.depth].texts]
        new = [[index for index in row if index not in known] for row in lists]
        assert one.examples == len(lists) == 150
        assert one.copies == sum(map(len, lists))
        assert one.new == sum(map(len, new))
        assert one.familiar == sum(not row for row in new)
        assert set(one.indices) == {index for row in new for index in row}
    lacking = {one.inputs[0] for one in certificate.violations if one.function == "COPY"}
    assert lacking == (set() if "copies" in settings else set(certificate.new_indices))
    assert certificate.spelling == ("digits" if "copies" in settings else "words")
    assert check(certificate, train, test)


def test_answered_are_the_examples_without_a_new_index(settings: dict[str, Any]) -> None:
    """With the operators given, an example is answered if and only if training shows all that it copies.

    The Bayes ceiling of the ladder says the same: certain where nothing is new, and never below the share answered.
    """
    given = settings.get("operators", OPERATORS)
    train, test = orchard("train", **settings), orchard("test-8", **settings)
    certificate = certify(train, test, given=given)
    known = known_by(train)
    fine = np.array([set(arguments(text)) <= known for text in test.texts])
    answers = compose_values(learn(train, given=given), test)
    if "copies" in settings:
        assert certificate.fair
        assert certificate.answered == len(test)
        return
    assert 0 < certificate.answered == fine.sum() < len(test)
    np.testing.assert_array_equal(answers.right_throughout, fine)
    ceiling = pm.shortcuts.copy_ceiling(test, known)
    assert (ceiling.right[fine] == 1).all()
    assert ceiling.right[~fine].prod(axis=1).min() < 1
    assert certificate.answered / len(test) < ceiling.accuracy


def test_nothing_is_missing_against_itself(settings: dict[str, Any]) -> None:
    train = orchard("train", **settings)
    certificate = certify(train, train)
    assert certificate.fair
    assert certificate.new_indices == ()
    assert certificate.answered == len(train)
    assert all(one.examples == one.answered == one.familiar and not one.new for one in certificate.copies)


def test_addresses_are_what_the_text_says(settings: dict[str, Any]) -> None:
    """Read from the tokens, they are the positions that the links lead to."""
    corpus = orchard("test-8", **settings)
    found = addresses(corpus)
    assert found is not None
    rows, quoted = copy_arguments(corpus.forest, corpus.width)
    np.testing.assert_array_equal(found.row, rows)
    np.testing.assert_array_equal(found.argument, quoted)
    np.testing.assert_array_equal(found.position, quoted)


def test_the_facts_themselves() -> None:
    train = written("[MAX 2 6 0 1 ] X [MIN [COPY 1 ] [COPY 3 ] ]", "[MIN 5 5 ] X [MAX [COPY 0 ] 7 ]")
    learned = learn(train)
    assert learned.table("COPY") == {(0,): 0, (1,): 1, (3,): 3}
    test = written("[MAX 2 6 0 1 ] X [MIN [COPY 1 ] [COPY 2 ] ]", "[MAX 2 6 0 1 ] X [COPY 3 ]")
    certificate = certify(train, test)
    assert [(one.function, one.inputs) for one in certificate.violations] == [("COPY", (2,)), ("MIN", (2, 6))]
    assert certificate.answered == 1
    assert compose_values(learned, test).outputs == [6, None, 6, 0]
    assert certify(train, test, given=["COPY", "MIN"]).fair


def test_fewest_rows_and_mirrors() -> None:
    """COPY facts count in covers, and one index can be taken out of a training set."""
    train = orchard("train")
    test = orchard("test-3")[:40]
    chosen = train.take(minimal(train, test, given=OPERATORS, seconds=0).rows)
    assert len(chosen) < 20
    assert certify(chosen, test, given=OPERATORS).fair
    index = sorted(known_by(test))[-1]
    without = mirror(train, ("COPY", (index,)), orchard("dev", dev=3000), given=OPERATORS)
    assert index not in known_by(without)
    assert known_by(without) >= known_by(train) - {index}
    assert certify(without, test, given=OPERATORS).new_indices == (index,)


def test_a_link_that_leads_elsewhere_is_a_conflict() -> None:
    good = written("[MAX 2 2 2 ] X [MIN [COPY 1 ] [COPY 2 ] ]")
    links = good.forest.links.copy()
    links[np.flatnonzero(links)[1]] += 1  # the text says COPY 2, and the link leads to 1
    wrong = dataclasses.replace(good, forest=dataclasses.replace(good.forest, link=links))
    certificate = certify(good, wrong)
    (conflict,) = certificate.conflicts
    assert (conflict.function, conflict.inputs, conflict.outputs) == ("COPY", (2,), (2, 1))
    assert certificate.answered == 0
    assert check(certificate, good, wrong)


def test_words_and_digits_do_not_mix() -> None:
    train, test = orchard("train"), orchard("test-8", copies="digits")
    with pytest.raises(FairnessError, match=r"example 0, node \d+ .*written as digits here and as words before"):
        certify(train, test)
    small = orchard("train", copies="digits")
    one_digit = written("[MIN 2 6 0 1 ] X [MAX [COPY 1 ] 3 ]")  # the same in both spellings
    assert certify(small, one_digit, given=OPERATORS).fair
    assert certify(train, one_digit, given=OPERATORS).fair


def test_text_and_trees_that_disagree() -> None:
    corpus = written("[MAX 2 6 ] X [MIN [COPY 1 ] 3 ]")
    tokens = corpus.tokens.copy()
    tokens[corpus.vocabulary.index("[COPY") == tokens] = 0
    bare = dataclasses.replace(corpus, tokens=tokens)
    with pytest.raises(FairnessError, match="line 1: the text has 0 COPYs, and 1 nodes quote others"):
        certify(bare, bare)


def test_the_checker_finds_lies_about_copies() -> None:
    train, test = orchard("train")[:200], orchard("test-8")[:30]
    honest = certify(train, test)
    assert check(honest, train, test)
    (only,) = honest.copies
    copy = next(place for place, one in enumerate(honest.witnesses) if one.function == "COPY")
    claimed = honest.witnesses[copy]
    for lie in (
        {"copies": ()},
        {"copies": (only._replace(new=only.new - 1),)},
        {"copies": (only._replace(familiar=only.familiar + 1),)},
        {"copies": (only._replace(indices=only.indices[1:]),)},
        {"spelling": "digits"},
        {"violations": tuple(one for one in honest.violations if one.function != "COPY")},
        {"witnesses": (*honest.witnesses[:copy], claimed._replace(output=99), *honest.witnesses[copy + 1 :])},
    ):
        assert not check(dataclasses.replace(honest, **lie), train, test), lie


@pytest.mark.parametrize("suffix", ["jsonl", "parquet", "input"])
def test_files_and_the_command(suffix: str, tmp_path: Path) -> None:
    """Every format gives the certificate of the corpus itself; the command names the indices."""
    train, test = orchard("train"), orchard("test-8")
    for corpus, name in ((train, "train"), (test, "test")):
        pm.write(corpus, tmp_path / f"{name}.{suffix}")
    paths = [str(tmp_path / f"train.{suffix}"), "--test", str(tmp_path / f"test.{suffix}")]
    done = CliRunner().invoke(app, ["certify", *paths, "--given", "M*", "--out", str(tmp_path / "c.json")])
    expected = certify(train, test, given=["M*"])
    assert done.exit_code == 1, done.output
    assert Certificate.load(tmp_path / "c.json") == expected
    assert json.loads((tmp_path / "c.json").read_text())["new_indices"] == list(expected.new_indices)
    first = " ".join(map(str, expected.new_indices[:8]))
    assert f"COPY indices of the test mean: {first}" in done.output
    assert f"answers {expected.answered} of 150 test examples" in done.output


def test_the_command_with_a_task() -> None:
    few = ["--set", "train=300", "--set", "test=40", "--set", "dev=0", "--set", "iid=0", "--json"]
    whole = CliRunner().invoke(app, ["certify", "orchard/hard/min-max", "--size", "20", *few])
    made = json.loads(whole.stdout)
    assert made["test"] == 20 * 11
    assert [one["depth"] for one in made["copies"]] == list(range(3, 13))
    assert "the first 20 examples each" in whole.stderr
    deepest = CliRunner().invoke(app, ["certify", "orchard/hard/min-max", "--test", "test-12", *few])
    assert [one["examples"] for one in json.loads(deepest.stdout)["copies"]] == [40]

"""Questions out, answers in: forms of an answer, ids, files with something wrong, and trees over the tokens."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

import pomona as pm
from pomona.base.errors import FormatError, MeasureError
from pomona.cli.main import app
from pomona.data.answers import Answers, answers_given, ids_of, trees_over
from pomona.trees import brackets
from pomona.trees.binary import binarise, branching

LISTOPS = {"train": 60, "dev": 10, "test": 40}


@pytest.fixture(scope="module")
def corpus() -> pm.Corpus:
    return pm.generate("listops/d20s", split="test", seed=3, **LISTOPS)


@pytest.fixture(scope="module")
def pairs() -> pm.Corpus:
    return pm.generate("orchard/hard/min-max", split="test-4", seed=3, train=60, dev=10, test=20, iid=10)


def write(path: Path, lines: list[Any]) -> Path:
    path.write_text("".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines))
    return path


def right(corpus: pm.Corpus) -> list[dict[str, Any]]:
    return [{"id": one.id, "prediction": one.target[0]} for one in corpus]


# -- the way there and back ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["corpus", "pairs"])
def test_what_is_written_reads_back(request: pytest.FixtureRequest, tmp_path: Path, name: str) -> None:
    some: pm.Corpus = request.getfixturevalue(name)
    lines = [json.loads(line) for line in pm.data.write_inputs(some, tmp_path / "in.jsonl").read_text().splitlines()]
    assert [(line["id"], line["input"]) for line in lines] == [(one.id, one.text) for one in some]
    assert all(set(line) == {"id", "input"} for line in lines)  # no answer slips out
    random = np.random.default_rng(1)
    given = random.integers(-1, 10, some.targets.shape)
    path = pm.data.write_answers(some, Answers("mine", given), tmp_path / "answers.jsonl")
    lines = path.read_text().splitlines()
    path.write_text("\n".join(random.permutation(lines).tolist()))  # the order of lines is nothing
    np.testing.assert_array_equal(pm.data.read_answers(path, some).given, given)


def test_inputs_with_answers_score_full_marks(corpus: pm.Corpus, pairs: pm.Corpus, tmp_path: Path) -> None:
    for some in (corpus, pairs):
        path = pm.data.write_inputs(some, tmp_path / "in.jsonl", answers=True)
        rows = [json.loads(line) for line in path.read_text().splitlines()]
        write(tmp_path / "out.jsonl", [{"id": row["id"], "prediction": row["answer"]} for row in rows])
        np.testing.assert_array_equal(pm.data.read_answers(tmp_path / "out.jsonl", some).given, some.targets)


@pytest.mark.parametrize(("suffix", "mark"), [(".csv", ","), (".tsv", "\t")])
def test_tables(corpus: pm.Corpus, tmp_path: Path, suffix: str, mark: str) -> None:
    lines = [mark.join(("prediction", "id"))] + [mark.join((str(one.target[0]), one.id)) for one in corpus]
    path = tmp_path / f"answers{suffix}"
    path.write_text("\r\n".join(lines))
    np.testing.assert_array_equal(pm.data.read_answers(path, corpus).given, corpus.targets)
    path.write_text(mark.join(("prediction", "key")) + "\n")
    with pytest.raises(FormatError, match="line 1: the first line must name the columns id and prediction"):
        pm.data.read_answers(path, corpus)
    path.write_text("\n".join([*lines[:3], lines[3] + mark + "7"]))
    with pytest.raises(FormatError, match="line 4: the number of columns differs"):
        pm.data.read_answers(path, corpus)


# -- forms of an answer ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("said", "place"),
    [
        (7, 7), ("7", 7), (" 7\n", 7), (7.0, 7), (np.int64(7), 7), ([7], 7), ("07", -1), ("7.0", -1), ("7.", -1),
        ("The answer is 7", -1), ("", -1), (None, -1), (True, -1), (7.5, -1), (10, -1), ("14", -1), ([7, 7], -1),
        (float("nan"), -1), ({"answer": 7}, -1), ("7,7", -1),
    ],
)  # fmt: skip
def test_forms_of_one_answer(corpus: pm.Corpus, said: Any, place: int) -> None:
    assert answers_given(corpus[:1], [said]).tolist() == [[place]]


@pytest.mark.parametrize(
    ("said", "places"),
    [
        ("6,2", [6, 2]), ("6 2", [6, 2]), (" 6 , 2 ", [6, 2]), ([6, 2], [6, 2]), (["6", 2], [6, 2]), ((6, 2), [6, 2]),
        ("6", [6, -1]), ("6,", [6, -1]), (",2", [-1, 2]), ("x,2", [-1, 2]), ("6,2,1", [-1, -1]), ("", [-1, -1]),
        ("6;2", [-1, -1]), (6, [6, -1]), (None, [-1, -1]), ("62", [-1, -1]),
    ],
)  # fmt: skip
def test_forms_of_two_answers(pairs: pm.Corpus, said: Any, places: list[int]) -> None:
    assert answers_given(pairs[:1], [said]).tolist() == [places]


def test_words_are_answers_where_the_outcomes_are_words() -> None:
    nli = pm.generate("fair_nli/hardest", split="test", size=10)
    given = answers_given(nli, [" entailment", "Entailment", *["neutral"] * 8])
    assert [nli.outcomes[one] for one in given[[0, 2], 0]] == ["entailment", "neutral"]
    assert given[1, 0] == -1


# -- ids -------------------------------------------------------------------------------------------------------------


@given(st.lists(st.integers(0, 4), min_size=1, max_size=12))
def test_every_example_has_an_id_of_its_own(rows: list[int]) -> None:
    some = pm.generate("listops/d20s", split="test", seed=3, **LISTOPS).take(np.array(rows))
    ids = ids_of(some)
    assert len(set(ids)) == len(rows)
    assert [name.partition("-")[0] for name in ids] == [one.id for one in some]


def test_what_is_wrong_with_ids_is_listed(corpus: pm.Corpus, tmp_path: Path) -> None:
    lines = right(corpus)
    path = write(
        tmp_path / "a.jsonl", [*lines[12:], lines[20], {"id": "nobody", "prediction": 1}, {"id": 7, "prediction": 1}]
    )
    with pytest.raises(FormatError) as caught:
        pm.data.read_answers(path, corpus)
    told = str(caught.value)
    first = ", ".join(one.id for one in corpus[:10])
    assert f"a.jsonl: 12 examples without a prediction: {first}, ...; " in told
    assert f"1 id given more than once: {corpus[20].id} (lines 9 and 29)".replace(" and ", ", ") in told
    assert "2 ids not in the corpus: nobody, 7." in told
    assert "has 40 ids; `pomona export` writes them" in told


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ('{"id": "x", "prediction": 1', "line 2: this is not JSON: Expecting"),
        ("[" * 100_000, "line 2: this is not JSON"),
        ("7", "line 2: a line is an object, for example"),
        ('{"id": "x"}', "line 2: a line is an object, for example"),
        ('{"id": null, "prediction": 1}', "line 2: \"id\" is a string; got 'None'"),
        ('{"id": true, "prediction": 1}', "line 2: \"id\" is a string; got 'True'"),
        ("\udcff", "line 2: this is not UTF-8"),
    ],
)
def test_a_line_that_cannot_be_read_is_named(corpus: pm.Corpus, tmp_path: Path, line: str, words: str) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes((json.dumps(right(corpus)[0]) + "\n" + line + "\n").encode("utf-8", "surrogateescape"))
    with pytest.raises(FormatError) as caught:
        pm.data.read_answers(path, corpus)
    assert words in str(caught.value)


def test_an_empty_file_and_no_file(corpus: pm.Corpus, tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="the file is empty"):
        pm.data.read_answers(write(tmp_path / "a.jsonl", ["", "  "]), corpus)
    with pytest.raises(FormatError, match="cannot be read: No such file"):
        pm.data.read_answers(tmp_path / "b.jsonl", corpus)


def test_as_many_predictions_as_examples(corpus: pm.Corpus) -> None:
    with pytest.raises(MeasureError, match="2 predictions for the 40 examples"):
        answers_given(corpus, [1, 2])


# -- trees -----------------------------------------------------------------------------------------------------------


def test_trees_in_either_notation(corpus: pm.Corpus, tmp_path: Path) -> None:
    gold = binarise(corpus.forest)
    for texts in (brackets.write(corpus.forest), brackets.write(gold)):
        lines = [{**line, "tree": text} for line, text in zip(right(corpus), texts, strict=True)]
        found = pm.data.read_answers(write(tmp_path / "a.jsonl", lines), corpus).trees
        assert found is not None
        assert brackets.write(found) == brackets.write(gold)


def test_answers_with_trees_read_back(corpus: pm.Corpus, tmp_path: Path) -> None:
    trees = branching(corpus.lengths, "right")
    words = np.array(corpus.vocabulary, object)[corpus.tokens].tolist()
    names = (*corpus.vocabulary, "")
    symbol = np.full(len(trees.symbol), len(names) - 1, np.int16)
    symbol[trees.leaf] = [names.index(word) for word in words]
    named = dataclasses.replace(trees, symbol=symbol, names=names)
    path = pm.data.write_answers(corpus, Answers("right", corpus.targets.astype(np.int64), named), tmp_path / "a.jsonl")
    found = pm.data.read_answers(path, corpus).trees
    assert found is not None
    np.testing.assert_array_equal(found.parent, trees.parent)


@pytest.mark.parametrize(
    ("tree", "words"),
    [
        ("( ( [MAX 2 )", "the tree of 'x': column"),
        ("[MAX 2 9 3 ]", "the tree of 'x' has 5 tokens, the example 4"),
        ("( ( ( [MIN 2 ) 9 ) ] )", "the tree of 'x' has '[MIN' as token 1, the example '[MAX'"),
        (["[MAX 2 9 ]"], "the tree of 'x': a tree is text in brackets"),
        ("", "the tree of 'x': column 1: there is no tree in an empty text"),
    ],
)
def test_a_tree_that_does_not_fit_is_named(tmp_path: Path, tree: Any, words: str) -> None:
    node = {"type": "MAX", "value": 9, "children": [{"type": "2", "value": 2}, {"type": "9", "value": 9}]}
    some = pm.read(write(tmp_path / "data.jsonl", [{"id": "x", "tree": node}]))
    with pytest.raises(FormatError) as caught:
        pm.data.read_answers(write(tmp_path / "a.jsonl", [{"id": "x", "prediction": 9, "tree": tree}]), some)
    assert words in str(caught.value)


def test_trees_for_all_or_for_none(corpus: pm.Corpus, pairs: pm.Corpus, tmp_path: Path) -> None:
    lines = right(corpus)
    lines[4]["tree"] = corpus[4].text
    with pytest.raises(FormatError, match=f"1 of 40 predictions have a tree; the first without is {corpus[0].id!r}"):
        pm.data.read_answers(write(tmp_path / "a.jsonl", lines), corpus)
    with pytest.raises(FormatError, match="trees can be compared if an example has one; here it has 2"):
        trees_over(pairs, pairs.texts)


# -- outcomes of all kinds -------------------------------------------------------------------------------------------


def with_outcomes(path: Path, *values: Any) -> pm.Corpus:
    """A corpus whose trees have these values."""
    width = len(values[0]) if isinstance(values[0], list) else 1
    rows = [
        {"id": f"q{at}", "tokens": [str(at)], "trees": [{"type": f"n{at}", "value": one} for one in roots]}
        for at, roots in enumerate(value if width > 1 else [value] for value in values)
    ]
    return pm.read(write(path, rows))


@pytest.mark.parametrize(
    "values",
    [
        (1, "1", "", " q ", "a,b", "New York", "q"),
        (["a,b", "New York"], ["", " q "], ["New York", "a,b"]),
    ],
)
def test_whatever_the_outcomes_are_answers_come_back(tmp_path: Path, values: tuple[Any, ...]) -> None:
    some = with_outcomes(tmp_path / "own.jsonl", *values)
    for places in (some.targets.astype(np.int64), np.full(some.targets.shape, -1, np.int64)):
        path = pm.data.write_answers(some, Answers("mine", places), tmp_path / "answers.jsonl")
        np.testing.assert_array_equal(pm.data.read_answers(path, some).given, places)


def test_an_answer_that_is_no_outcome_may_read_like_one(tmp_path: Path) -> None:
    some = with_outcomes(tmp_path / "own.jsonl", "4", " q ")
    assert answers_given(some, [4, "q"]).tolist() == some.targets.tolist()


@pytest.mark.parametrize("target", ["Paris, France", "6,2"])
def test_a_comma_alone_does_not_make_two_questions(tmp_path: Path, target: str) -> None:
    trees = [{"type": "city", "value": "6"}, {"type": "land", "value": "3"}]
    some = pm.read(write(tmp_path / "own.jsonl", [{"id": "a", "tokens": ["a"], "trees": trees, "target": target}]))
    assert pm.evaluate([target], some, ladders=False).accuracy.value == 1
    both = pm.read(write(tmp_path / "own.jsonl", [{"id": "a", "tokens": ["a"], "trees": trees, "target": "6,3"}]))
    assert [one.value for one in pm.evaluate([[6, 2]], both, ladders=False).questions] == [1, 0]


@pytest.mark.parametrize("names", ["id,prediction,prediction", "id,id,prediction", "id,prediction," + "x" * 200_000])
def test_a_table_whose_first_line_cannot_be_taken(corpus: pm.Corpus, tmp_path: Path, names: str) -> None:
    (tmp_path / "a.csv").write_text(f"{names}\nq,1,2\n")
    with pytest.raises(FormatError, match=r"once each|table cannot be read"):
        pm.data.read_answers(tmp_path / "a.csv", corpus)


def test_brackets_around_one_thing_group_nothing(tmp_path: Path) -> None:
    some = pm.read(write(tmp_path / "own.jsonl", [{"tree": {"type": "s"}, "tokens": ["a", "b", "c"]}]))
    plain = trees_over(some, ["( ( a b ) c )"])
    for text in ("( ( ( a ) b ) c )", "( ( ( ( a b ) ) ( ( c ) ) ) )", "( ( ( a b ) c ) )"):
        assert brackets.write(trees_over(some, [text])) == brackets.write(plain)
    alone = pm.read(write(tmp_path / "own.jsonl", [{"tree": {"type": "s"}, "tokens": ["a"]}]))
    assert brackets.write(trees_over(alone, ["( ( a ) )"])) == ["a"]


def test_texts_inside_a_tuple_stand_for_their_values(tmp_path: Path) -> None:
    corpus = with_outcomes(tmp_path / "tuples.jsonl", ("a", 1), ("a", "1"), ("b", (2, 0.5)), ("c", 3))
    said = [["a", "1"], ("a", 1), ["b", [" 2", "0.5"]], ["c", "4"]]
    found = [corpus.outcomes[place] if place >= 0 else None for place in answers_given(corpus, said).ravel().tolist()]
    assert found == [("a", "1"), ("a", 1), ("b", (2, 0.5)), None]  # an equal value comes first, then an equal text


def test_pairs_are_exported_with_premise_and_hypothesis_and_three_labels(tmp_path: Path) -> None:
    corpus = pm.generate("fair_nli/hardest", "test", 0, 30, train=1_500, dev=10, test=60)
    path = pm.data.write_inputs(corpus, tmp_path / "in.jsonl")
    for line, example in zip(path.read_text().splitlines(), corpus, strict=True):
        row = json.loads(line)
        assert list(row) == ["id", "input", "premise", "hypothesis"]
        assert row["input"] == f"{row['premise']} {row['hypothesis']}" == example.text
        assert len(row["premise"].split()) == len(row["hypothesis"].split()) == 9
    named = CliRunner().invoke(app, ["export", str(pm.write(corpus, tmp_path / "t.snli.jsonl")), "--out", str(path)])
    assert "Answers are entailment, neutral, contradiction." in named.stdout.replace("\n", " ")

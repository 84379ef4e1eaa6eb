"""An adjective that describes subjects and objects alike changes no label: a proof by Z3, and files that have some.

The proof. Take any model of the sentences in which the adjective of subjects and the adjective of objects are two
predicates. Its double has every thing twice, once as a subject and once as an object. A noun of subjects holds of
things as subjects only, a noun of objects of things as objects only, a verb holds of a subject and an object. The one
shared adjective is, of a subject, what the adjective of subjects was, and of an object what the adjective of objects
was. Z3 shows for each of the 256 forms of a sentence that it is true in the double exactly if it was true in the model,
and that the assumptions stay true. So what has a model with two adjectives has one with a shared adjective. The
converse is plain: let both predicates be the shared one.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import z3
from typer.testing import CliRunner

import pomona as pm
from pomona.base.errors import FormatError, SpecError
from pomona.cli.main import app
from pomona.data.corpus import Corpus
from pomona.tasks.fair_nli.logic.aligned import figure_4
from pomona.tasks.fair_nli.logic.first_order import Algebra, Formula, assumptions, fold, meaning
from pomona.tasks.fair_nli.logic.fragment import ENCODINGS
from pomona.tasks.fair_nli.logic.provers import Z3, Table
from pomona.tasks.fair_nli.logic.sentences import Sentence, encode_pairs, exemplar

THING = z3.DeclareSort("Thing")
QUANTIFIERS = ("some", "every", "no", "notevery")


def forms(adjectives: tuple[str, str]) -> list[Sentence]:
    """The 256 forms of a sentence: quantifiers, negation, and which modifiers there are."""
    subject, obj = adjectives
    return [
        Sentence(first, subject * a, "kid", negated, "well" * b, "see", second, obj * c, "rock")
        for first, second, negated, a, b, c in product(QUANTIFIERS, QUANTIFIERS, *[(False, True)] * 4)
    ]


def holds(word: str, *variables: str) -> Any:
    function = z3.Function(word, *[THING] * len(variables), z3.BoolSort())
    return function(*(z3.Const(variable, THING) for variable in variables))


def algebra(atom: Callable[[str, tuple[str, ...]], Any], bound: Callable[[str], list[Any]]) -> Algebra[Any]:
    return Algebra(
        atom, z3.Not, z3.And, z3.Implies,
        exists=lambda variable, body: z3.Exists(bound(variable), body),
        for_all=lambda variable, body: z3.ForAll(bound(variable), body),
    )  # fmt: skip


def double(shared: str) -> Algebra[Any]:
    """Formulas about the double of a model; `is_subject` tells on which side a thing stands."""

    def is_subject(variable: str) -> Any:
        return z3.Bool(f"{variable} is a subject")

    def atom(word: str, variables: tuple[str, ...]) -> Any:
        x, y = variables[0], variables[-1]
        if word == shared:
            return z3.If(is_subject(x), holds(f"{word} as AdjS", x), holds(f"{word} as AdjO", x))
        if len(variables) == 2:
            return z3.And(is_subject(x), z3.Not(is_subject(y)), holds(word, x, y))
        return z3.And(is_subject(x) if word == "kid" else z3.Not(is_subject(x)), holds(word, x))

    return algebra(atom, lambda variable: [z3.Const(variable, THING), is_subject(variable)])


MODEL = algebra(lambda word, variables: holds(word, *variables), lambda variable: [z3.Const(variable, THING)])


def proved(claim: Any) -> bool:
    solver = z3.Solver()
    solver.set("timeout", 20_000)
    solver.add(z3.Not(claim))
    return bool(solver.check() == z3.unsat)


def conjunction(formulas: tuple[Formula, ...], algebra: Algebra[Any]) -> Any:
    return z3.And(*(fold(formula, algebra) for formula in formulas))


def test_a_shared_adjective_changes_no_label() -> None:
    apart, together = forms(("red as AdjS", "red as AdjO")), forms(("red", "red"))
    for before, after in zip(apart, together, strict=True):
        assert proved(fold(meaning(before), MODEL) == fold(meaning(after), double("red"))), after
    for before, after in zip(apart[:8], together[:8], strict=True):  # all modifiers with and without
        assert proved(
            z3.Implies(conjunction(assumptions(before), MODEL), conjunction(assumptions(after), double("red")))
        )


def test_the_proof_can_fail() -> None:
    """A noun of subjects and objects holds on both sides of the double, and there the sentence may change."""
    before = Sentence("every", "", "kid as AdjS", False, "", "see", "some", "", "kid as AdjO")
    after = Sentence("every", "", "kid", False, "", "see", "some", "", "kid")
    solver = z3.Solver()
    solver.add(fold(meaning(before), MODEL) != fold(meaning(after), double("kid")))
    assert solver.check() == z3.sat
    with pytest.raises(SpecError, match="'kid' stands both as NS and as NO"):
        encode_pairs([(after, after)])


def renamed(sentence: Sentence) -> Sentence:
    """Adjectives of subjects and objects with the same number become one word."""
    words = [word.replace("sadj", "adj").replace("oadj", "adj") for word in sentence.words]
    return Sentence(words[0], words[1], words[2], sentence.negated, *words[4:])


def test_provers_and_the_table_agree_on_shared_adjectives() -> None:
    z3_label, table = Z3(timeout=5).label, Table().label
    for code in np.random.default_rng(5).choice(ENCODINGS, 25, replace=False).tolist():
        premise, hypothesis = map(renamed, exemplar(code))
        assert encode_pairs([(premise, hypothesis)]).tolist() == [code]
        assert z3_label(premise, hypothesis) == table(premise, hypothesis)


# -- files of the authors' form --------------------------------------------------------------------------------------

NAMES = {
    "≡": "equivalence", "⊏": "entails", "⊐": "reverse entails", "^": "contradiction2", "|": "alternation",
    "⌣": "cover", "#": "independence",
}  # fmt: skip


def authors_lines(corpus: Corpus, *, twelve: bool) -> list[dict[str, Any]]:
    """36 of 100 adjectives are shared by subjects and objects; gold_label lists twelve answers, or is the label."""
    rows = []
    for row, answers in zip(corpus, figure_4(corpus).tolist(), strict=True):
        words = [
            word.replace("sadj", "adj").replace("oadj", "adj") if "adj" in word and int(word[4:]) <= 36 else word
            for word in row.tokens
        ]
        *inner, label = (corpus.outcomes[answer] for answer in answers)
        gold = [*(NAMES[str(name)] for name in inner), label] if twelve else label
        rows.append({"sentence1": " ".join(words[:9]), "sentence2": " ".join(words[9:]), "gold_label": gold})
    return rows


def save(rows: list[dict[str, Any]], path: Path) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """train with twelve labels a line, as the authors name it, test with one."""
    folder = tmp_path_factory.mktemp("authors")
    size = {"train": 2_400, "dev": 0, "test": 300, "vocabulary": 100}
    train, test = (pm.generate("fair_nli/hardest", split, seed=3, **size) for split in ("train", "test"))
    return {
        "train": save(authors_lines(train, twelve=True), folder / "0gendata.train1256"),
        "plain": save(authors_lines(train, twelve=False), folder / "0gendata.train"),
        "test": save(authors_lines(test, twelve=False), folder / "0gendata.test"),
    }


def test_twelve_labels_are_those_of_the_words(files: dict[str, Path]) -> None:
    train = pm.read(files["train"])
    assert train.fingerprint == pm.read(files["plain"]).fingerprint
    tokens = np.array(train.vocabulary, object)[train.tokens].reshape(-1, 18)
    shared = ((tokens[:, [1, 10, 1, 10]] == tokens[:, [7, 16, 16, 7]]) & (tokens[:, [1, 10, 1, 10]] != "emptystring"))
    assert shared.any(axis=1).sum() > 5  # pairs with one adjective in both places
    for path in files.values():
        assert pm.verify(path, prover="table", sample=None).holds


def test_a_wrong_answer_among_the_twelve_is_found(files: dict[str, Path], tmp_path: Path) -> None:
    rows = [json.loads(line) for line in files["train"].read_text().splitlines()[:50]]
    wrong = rows[7]["gold_label"]
    wrong[9] = "cover" if wrong[9] != "cover" else "alternation"
    found = pm.verify(save(rows, tmp_path / "a.train"))
    assert [(problem.line, problem.kind) for problem in found.problems] == [(8, "wrong node value")]


@pytest.mark.parametrize(
    ("gold", "words"),
    [
        (["equivalence", "neutral"], '"gold_label" lists 2 answers; there are 12 questions, the label last'),
        ([], '"gold_label" is None; expected entailment, neutral, contradiction'),
        (["like"] * 11 + ["neutral"], "\"gold_label\" is 'like'; expected equivalence, entails, reverse entails"),
        (["cover"] * 12, "\"gold_label\" is 'cover'; expected entailment, neutral, contradiction"),
        ([["cover"]] * 12, '"gold_label" is'),
        (7, '"gold_label" is 7; expected entailment, neutral, contradiction'),
    ],
)
def test_bad_lists_are_named(gold: Any, words: str, files: dict[str, Path], tmp_path: Path) -> None:
    rows = [json.loads(line) for line in files["plain"].read_text().splitlines()[:2]]
    rows[1]["gold_label"] = gold
    with pytest.raises(FormatError) as caught:
        pm.read(save(rows, tmp_path / "a.train"))
    assert f"line 2: {words}" in str(caught.value)


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_commands_take_the_files_as_they_are(files: dict[str, Path], end: str, tmp_path: Path) -> None:
    def run(*words: str) -> Any:
        return CliRunner().invoke(app, list(map(str, words)))

    if end == "\r\n":  # as a program on Windows saves them
        unix, files = files, {name: tmp_path / path.name for name, path in files.items()}
        for name, path in files.items():
            path.write_bytes(b"\xef\xbb\xbf" + unix[name].read_bytes().replace(b"\n", end.encode()))
            assert pm.read(path).fingerprint == pm.read(unix[name]).fingerprint
    shown = run("verify", files["train"], "--prover", "z3", "--sample", "5")
    assert shown.exit_code == 0, shown.output
    shown = run("certify", files["train"], "--test", files["test"], "--json")
    assert shown.exit_code in (0, 1), shown.output  # 2,400 pairs do not show all pairs of words
    assert json.loads(shown.stdout)["missing"]
    shown = run("train", "comptreenn", "--data", files["train"], "--out", tmp_path / "run", "--model-set", "width=8",
                "--recipe", "epochs=1", "--recipe", "dev_rows=100", "--quiet")  # fmt: skip
    assert shown.exit_code == 0, shown.output

"""Sentences, their first-order meaning, and the labellers that decide it."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import oracles_logic as oracle
from pomona.base.errors import SpecError
from pomona.tasks.fair_nli.logic import first_order, fragment
from pomona.tasks.fair_nli.logic.first_order import Algebra, assumptions, fold, meaning
from pomona.tasks.fair_nli.logic.fragment import ENCODINGS
from pomona.tasks.fair_nli.logic.provers import Z3, EProver, FirstOrder, Prover9, Table, Verdict, labeller
from pomona.tasks.fair_nli.logic.relations import (
    CELL_00,
    CELL_01,
    CELL_10,
    CELL_11,
    Label,
    Relation,
    relations_by_cells,
)
from pomona.tasks.fair_nli.logic.sentences import Sentence, encode_pairs, exemplar, pair_of_words

PREMISE = "every tall kid emptystring happily kick every emptystring rock"
HYPOTHESIS = "no tall kid doesnot emptystring kick some large rock"

quantifiers = st.sampled_from(["some", "every", "no", "notevery"])
sentences = st.builds(
    Sentence, quantifiers, st.sampled_from(["", "tall", "shy"]), st.sampled_from(["kid", "dog"]), st.booleans(),
    st.sampled_from(["", "happily"]), st.sampled_from(["kick", "see"]), quantifiers,
    st.sampled_from(["", "large"]), st.sampled_from(["rock", "tree"]),
)  # fmt: skip


@given(sentences)
def test_reading_undoes_writing(sentence: Sentence):
    assert Sentence.parse(str(sentence)) == sentence
    assert sentence.contradictory.contradictory == sentence != sentence.contradictory


@given(st.integers(0, ENCODINGS - 1))
def test_an_exemplar_has_its_encoding(code: int):
    assert encode_pairs([exemplar(code)])[0] == code


def test_the_example_of_figure_4():
    pair = Sentence.parse(PREMISE), Sentence.parse(HYPOTHESIS)
    assert Table().label(*pair) == Verdict(Label.ENTAILMENT)
    values = fragment.targets(fragment.node_values(encode_pairs([pair])))[0]
    assert [Relation(v).symbol for v in values[:-1]] == ["≡", "≡", "⊏", "≡", "⊐", "≡", "≡", "⊏", "⊐", "⊏", "|"]


def test_bad_sentences_are_named():
    with pytest.raises(SpecError, match="has 9 tokens"):
        Sentence.parse("every kid kicks")
    with pytest.raises(SpecError, match=r"'evry' is not a quantifier. Did you mean 'every'"):
        Sentence.parse(PREMISE.replace("every", "evry", 1))
    with pytest.raises(SpecError, match="token 4 must be"):
        Sentence.parse(HYPOTHESIS.replace("doesnot", "not"))
    with pytest.raises(SpecError, match="needs a subject noun"):
        Sentence.parse(PREMISE.replace("kid", "emptystring"))
    with pytest.raises(SpecError, match="'kid' stands both as NS and as NO"):
        Table().label(Sentence.parse(PREMISE), Sentence.parse(HYPOTHESIS.replace("rock", "kid")))


# First-order meaning

Truth = Callable[[dict[str, int]], bool]


def in_model(size: int, holds: Callable[[str, tuple[int, ...]], bool]) -> Algebra[Truth]:
    """Formulas as functions from values of variables to truth values, in a finite model."""
    return Algebra[Truth](
        atom=lambda predicate, variables: lambda at: holds(predicate, tuple(at[v] for v in variables)),
        negation=lambda body: lambda at: not body(at),
        conjunction=lambda left, right: lambda at: left(at) and right(at),
        implication=lambda left, right: lambda at: right(at) if left(at) else True,
        exists=lambda variable, body: lambda at: any(body(at | {variable: n}) for n in range(size)),
        for_all=lambda variable, body: lambda at: all(body(at | {variable: n}) for n in range(size)),
    )


@given(sentences, st.integers(1, 4), st.randoms(use_true_random=False))
def test_meaning_is_truth_in_models(sentence: Sentence, size: int, random):
    facts: dict[tuple[str, tuple[int, ...]], bool] = {}

    def holds(predicate: str, entities: tuple[int, ...]) -> bool:
        return facts.setdefault((predicate, entities), random.random() < 0.6)

    def in_phrase(phrase: tuple[str, str], *entities: int) -> bool:
        return all(holds(word, entities) for word in phrase if word)

    def inner(x: int) -> bool:
        scope = [(in_phrase(sentence.object, y), in_phrase(sentence.predicate, x, y)) for y in range(size)]
        return oracle.quantify(sentence.object_quantifier, scope) != sentence.negated

    expected = oracle.quantify(
        sentence.subject_quantifier, [(in_phrase(sentence.subject, x), inner(x)) for x in range(size)]
    )
    assert fold(meaning(sentence), in_model(size, holds))({}) == expected


@given(sentences, sentences)
def test_assumptions_say_that_no_phrase_is_empty_or_universal(premise: Sentence, hypothesis: Sentence):
    phrases = {(s.subject, 1) for s in (premise, hypothesis)} | {(s.object, 1) for s in (premise, hypothesis)}
    phrases |= {(s.predicate, 2) for s in (premise, hypothesis)}
    texts = {str(formula) for formula in assumptions(premise, hypothesis)}
    expected = set()
    for (modifier, head), arity in phrases:
        names = "(x, y)" if arity == 2 else "(x)"
        body = f"({modifier}{names} ∧ {head}{names})" if modifier else f"{head}{names}"
        bound = "∃x ∃y " if arity == 2 else "∃x "
        expected |= {bound + body, bound + "¬" + body}
    assert texts == expected


def test_the_three_languages():
    formula = meaning(Sentence.parse("notevery tall kid doesnot emptystring kick some emptystring rock"))
    assert str(formula) == "¬∀x ((tall(x) ∧ kid(x)) → ¬∃y (rock(y) ∧ kick(x, y)))"
    assert first_order.tptp([formula]) == (
        "fof(f1, axiom, ~((![X]: ((p_tall(X) & p_kid(X)) => ~((?[Y]: (p_rock(Y) & p_kick(X,Y)))))))).\n"
    )
    assert first_order.smtlib([formula]).splitlines() == [
        "(set-logic UF)",
        "(declare-sort Thing 0)",
        "(declare-fun p_tall (Thing) Bool)",
        "(declare-fun p_kid (Thing) Bool)",
        "(declare-fun p_rock (Thing) Bool)",
        "(declare-fun p_kick (Thing Thing) Bool)",
        "(assert (not (forall ((x Thing)) (=> (and (p_tall x) (p_kid x)) "
        "(not (exists ((y Thing)) (and (p_rock y) (p_kick x y))))))))",
        "(check-sat)",
    ]
    assert first_order.prover9([formula]).splitlines() == [
        "formulas(assumptions).",
        "  -((all x ((p_tall(x) & p_kid(x)) -> -((exists y (p_rock(y) & p_kick(x,y))))))).",
        "end_of_list.",
    ]


def test_symbols_are_safe_and_different():
    words = ["a", "A", "a_b", "a b", "a-b", "a_20_b", "a_5f_b", "é", "x'); evil("]
    symbols = [first_order.symbol(word) for word in words]
    assert len(set(symbols)) == len(words)
    assert all(s.isascii() and s.replace("_", "a").isalnum() for s in symbols)


# Labellers


@pytest.fixture(scope="module")
def z3() -> Z3:
    return Z3()


def test_smtlib_text_means_the_same_as_the_z3_terms(z3: Z3):
    solver = pytest.importorskip("z3")
    rng = np.random.default_rng(5)
    for code in rng.integers(0, ENCODINGS, 25):
        premise, hypothesis = exemplar(int(code))
        formulas = (*assumptions(premise, hypothesis), meaning(premise), meaning(hypothesis))
        read = solver.Solver()
        read.from_string(first_order.smtlib(formulas))
        assert (read.check() == solver.sat) is z3.satisfiable(formulas)


@settings(max_examples=60, deadline=None)
@given(sentences, sentences)
def test_z3_and_the_table_agree(premise: Sentence, hypothesis: Sentence):
    assert Z3().label(premise, hypothesis) == Table().label(premise, hypothesis)


@settings(max_examples=20, deadline=None)
@given(sentences, sentences)
def test_z3_finds_the_seven_way_relation(premise: Sentence, hypothesis: Sentence):
    assert Z3().relation(premise, hypothesis) is Table().relation(premise, hypothesis)


def test_batches_keep_order_and_report_progress():
    codes = [0, 7, 70000, 524287, 131079]
    pairs = [exemplar(code) for code in codes]
    for name in ("table", "z3"):
        heard: list[int] = []
        verdicts = labeller(name).label_all(pairs, heard.append)
        assert [v.label for v in verdicts] == fragment.labels(np.array(codes)).tolist()
        assert heard == [1, 2, 3, 4, 5]


class Silent(FirstOrder):
    name = "silent"

    def satisfiable(self, formulas):
        return None


class Optimist(FirstOrder):
    """Knows about premise and negated hypothesis only."""

    name = "optimist"

    def satisfiable(self, formulas):
        return True if isinstance(formulas[-1], first_order.Not) else None


def test_an_undecided_question_is_unknown_and_never_a_label():
    pair = Sentence.parse(PREMISE), Sentence.parse("some tall kid emptystring happily kick every emptystring rock")
    for kind in (Silent, Optimist):
        verdict = kind(timeout=2).label(*pair)
        assert verdict.label is None
        assert verdict.text == "unknown"
        assert "could not decide premise" in verdict.reason
        assert "within 2 s" in verdict.reason
        assert kind().relation(*pair) is None


def test_z3_that_runs_out_of_time_says_unknown(monkeypatch: pytest.MonkeyPatch):
    solver = pytest.importorskip("z3")
    prover = Z3()
    monkeypatch.setattr(prover._solver, "check", lambda: solver.unknown)
    assert prover.label(Sentence.parse(PREMISE), Sentence.parse(HYPOTHESIS)).text == "unknown"


def program(folder: Path, name: str, body: str) -> None:
    """A stand-in prover: a Python script on PATH that has the problem in `text`."""
    path = folder / name
    path.write_text(f"#!{sys.executable}\nimport sys\ntext = sys.stdin.read()\n{body}\n")
    path.chmod(0o755)


def test_answers_of_e_are_read_strictly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    formulas = [meaning(Sentence.parse(PREMISE))]
    for said, expected in (
        ("# SZS status Unsatisfiable", False), ("# SZS status Satisfiable", True), ("# SZS status ResourceOut", None),
        ("# SZS status GaveUp", None), ("", None),
    ):  # fmt: skip
        program(tmp_path, "eprover", f"assert 'fof(f1, axiom,' in text; print({said!r})")
        assert EProver().satisfiable(formulas) is expected


def test_prover9_proves_and_mace4_finds_models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    formulas = [meaning(Sentence.parse(PREMISE))]
    asks = "assert 'formulas(assumptions).' in text; "
    program(tmp_path, "mace4", asks + "print('Exiting with failure.')")
    program(tmp_path, "prover9", asks + "print('THEOREM PROVED')")
    assert Prover9().satisfiable(formulas) is False
    program(tmp_path, "prover9", asks + "print('SEARCH FAILED')")
    assert Prover9().satisfiable(formulas) is None
    program(tmp_path, "mace4", asks + "print('Exiting with 1 model.')")
    assert Prover9().satisfiable(formulas) is True


def test_a_prover_that_hangs_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("pomona.tasks.fair_nli.logic.provers.GRACE", 0.3)
    program(tmp_path, "eprover", "import time; time.sleep(60)")
    start = time.monotonic()
    assert EProver(timeout=0.05).satisfiable([meaning(Sentence.parse(PREMISE))]) is None
    assert time.monotonic() - start < 30


def test_a_missing_prover_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SpecError, match=r"'eprover' is not on PATH. Install it with: apt-get install eprover"):
        labeller("eprover")
    with pytest.raises(SpecError, match="'prover9' is not on PATH"):
        labeller("prover9")
    monkeypatch.setitem(sys.modules, "z3", None)
    with pytest.raises(SpecError, match=r"pip install 'pomona\[prove\]'"):
        labeller("z3")


def test_unknown_provers_and_settings():
    with pytest.raises(SpecError, match=r"no prover is called 'eprove'. Did you mean 'eprover'"):
        labeller("eprove")
    with pytest.raises(SpecError, match="'table' does not take timeout"):
        labeller("table", timeout=3)
    with pytest.raises(SpecError, match="must be a positive number of seconds"):
        labeller("z3", timeout=0)


# Conformance: the whole space with Z3, samples with E

FLIP_PREMISE, FLIP_HYPOTHESIS = 1 << 16, 1 << 11  # the low bit of a subject quantifier turns it into its contradictory


@pytest.mark.conformance
def test_all_65536_relational_classes_with_z3(z3: Z3):
    """One question a class; the four questions of a class are those of its negations, so they give its relation."""
    every = np.arange(ENCODINGS)
    every = every[(every & 7) == 7]
    consistent = np.zeros(ENCODINGS, bool)
    for code in every:
        answer = z3.consistent(*exemplar(int(code)))
        assert answer is not None, f"z3 gave up on encoding {code}"
        consistent[code] = answer
    cells = np.zeros(len(every), int)
    for cell, flip in (
        (CELL_11, 0), (CELL_01, FLIP_PREMISE), (CELL_10, FLIP_HYPOTHESIS), (CELL_00, FLIP_PREMISE | FLIP_HYPOTHESIS)
    ):  # fmt: skip
        cells |= np.where(consistent[every ^ flip], cell, 0)
    assert (consistent[every].sum(), (~consistent[every]).sum()) == (62400, 3136)
    assert (relations_by_cells()[cells] == fragment.roots(every)).all()


def lexical_sample(count: int, seed: int) -> list[tuple[Sentence, Sentence]]:
    """Pairs of literal words, half of them not neutral, with every way to make # and pairs without modifiers."""
    rng = np.random.default_rng(seed)
    rows = rng.integers(0, 3, (400 * count, 18))
    for column in (0, 6, 9, 15):
        rows[:, column] = rng.integers(0, 4, len(rows))
    for column in (3, 12):
        rows[:, column] %= 2
    for column in (2, 5, 8, 11, 14, 17):
        rows[:, column] = rows[:, column] % 2 + 1
    labels = fragment.labels(fragment.encode(rows))
    shares = ((Label.NEUTRAL, count // 2), (Label.ENTAILMENT, count // 4), (Label.CONTRADICTION, count // 4))
    picked = np.concatenate([np.flatnonzero(labels == label)[:share] for label, share in shares])
    return [pair_of_words(rows[i]) for i in picked]


@pytest.mark.conformance
def test_lexical_pairs_with_z3(z3: Z3):
    pairs = lexical_sample(4000, 1)
    assert len(pairs) == 4000
    assert z3.label_all(pairs) == Table().label_all(pairs)


@pytest.mark.conformance
def test_lexical_pairs_with_e():
    """Fails with the command to install E where it is missing."""
    pairs = lexical_sample(600, 2)
    assert EProver().label_all(pairs) == Table().label_all(pairs)


def test_cells_are_numbered_by_premise_then_hypothesis():
    assert [1 << (2 * p + h) for p, h in product((1, 0), repeat=2)] == [CELL_11, CELL_10, CELL_01, CELL_00]

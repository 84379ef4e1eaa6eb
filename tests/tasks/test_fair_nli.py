"""Fair NLI data: balanced, disjoint, fair in both readings, and the same bits for everyone."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from pomona.base.errors import FairnessError, FormatError, SpecError, SplitError
from pomona.base.randomness import stream_key
from pomona.cli.main import app
from pomona.data import verification as verifying
from pomona.data.corpus import Corpus
from pomona.data.formats import read, write
from pomona.data.task import TASKS, generate
from pomona.fairness import certify, check, compose_values, learn, minimal, mirror
from pomona.shortcuts import ladder as shortcuts
from pomona.tasks.fair_nli.logic.aligned import (
    LEXICAL,
    OUTCOMES,
    aligned,
    codes_of,
    figure_4,
    generated_tokens,
    generated_vocabulary,
)
from pomona.tasks.fair_nli.logic.fragment import ENCODINGS, TARGETS, classes, labels, targets
from pomona.tasks.fair_nli.logic.fragment import node_values as fragment_values
from pomona.tasks.fair_nli.logic.pairs import DrawnPairs, draw_encodings
from pomona.tasks.fair_nli.logic.relations import Label, Relation
from pomona.tasks.fair_nli.logic.strict_core import strict_core, strict_minimum
from pomona.tasks.fair_nli.logic.verification import verify_labels

SMALL = {"vocabulary": 6, "train": 3_000, "dev": 300, "test": 600}
DIAL = ["hardest", "rho-1-16", "rho-1-8", "rho-1-4", "rho-3-8", "rho-1-2", "rho-5-8", "rho-3-4", "easiest"]


def corpus_of(pairs: DrawnPairs, vocabulary: int) -> Corpus:
    return aligned(generated_tokens(pairs.words, vocabulary), generated_vocabulary(vocabulary), pairs.codes)


@pytest.fixture(scope="module")
def one_of_each_class() -> Corpus:
    """65,536 pairs, one for each relational class."""
    _, first = np.unique(classes(np.arange(ENCODINGS)), return_index=True)
    return corpus_of(draw_encodings(first, key=stream_key("one of each class")), 100)


class TestConstants:
    def test_inputs_of_the_fifteen_nodes(self) -> None:
        core = corpus_of(strict_core(100, 0), 100)
        certificate = certify(core)
        assert certificate.fair
        assert {one.function: one.needed for one in certificate.coverage} == {
            "PROJ_QS": 16, "PROJ_AdjS": 10_201, "REL_NS": 10_000, "NP_S": 8, "PROJ_Neg": 4, "PROJ_QO": 16,
            "PROJ_Adv": 10_201, "REL_V": 10_000, "VP": 8, "PROJ_AdjO": 10_201, "REL_NO": 10_000, "NP_O": 8,
            "OBJ": 256, "NEGVP": 28, "ROOT": 448,
        }  # fmt: skip
        assert len(certificate.witnesses) == 61_395

    def test_the_strict_core_is_the_smallest_and_every_pair_of_it_is_needed(self) -> None:
        core = minimal(corpus_of(strict_core(100, 0), 100), seconds=0)
        assert len(core.rows) == core.lower_bound == strict_minimum(100) == 10_375

    def test_536_is_the_minimum_over_all_relational_classes(self, one_of_each_class: Corpus) -> None:
        best = minimal(one_of_each_class, given=LEXICAL, seconds=0)
        assert best.exact
        assert len(best.rows) == len(best.apart) == 536
        assert certify(one_of_each_class[best.rows], one_of_each_class, given=LEXICAL).fair

    def test_relations_and_labels_over_the_classes(self, one_of_each_class: Corpus) -> None:
        roots = one_of_each_class.values[one_of_each_class.forest.root]
        counts = dict(zip(OUTCOMES, np.bincount(roots).tolist(), strict=False))
        assert counts == {"≡": 128, "⊏": 3008, "⊐": 3008, "^": 128, "|": 3008, "⌣": 3008, "#": 53_248}
        asked = np.bincount(one_of_each_class.targets[:, 0])[len(Relation) :]
        assert dict(zip((label.text for label in Label), asked.tolist(), strict=True)) == {
            "entailment": 3136, "neutral": 59_264, "contradiction": 3136,
        }  # fmt: skip


class TestTheDial:
    @pytest.mark.parametrize("preset", DIAL)
    def test_fair_balanced_and_disjoint(self, preset: str) -> None:
        train, test = (generate(f"fair_nli/{preset}", split, **SMALL) for split in ("train", "test"))
        for corpus in (train, test):
            assert np.bincount(corpus.targets[:, 0])[len(Relation) :].tolist() == [len(corpus) // 3] * 3
            assert not len(corpus.duplicates())
        assert not len(np.intersect1d(train.keys, test.keys))
        shared = np.intersect1d(codes_of(train), codes_of(test))
        assert bool(len(shared)) == (preset == "easiest")  # where nothing is held out, encodings are shared
        certificate = certify(train, test, given=LEXICAL)
        assert certificate.fair
        assert certify(train, given=LEXICAL).fair
        assert certificate.answered == len(test)

    @pytest.mark.parametrize("preset", ["hardest", "rho-1-2"])
    def test_strict_needs_nothing_given(self, preset: str) -> None:
        train, test = (generate(f"fair_nli/{preset}", s, lexical="strict", **SMALL) for s in ("train", "test"))
        for by in ("type", "node"):
            certificate = certify(train, test, by=by)  # type: ignore[arg-type]
            assert certificate.fair
            assert certify(train, by=by).fair  # type: ignore[arg-type]
        assert check(certify(train, test), train, test)
        assert not len(np.intersect1d(codes_of(train), codes_of(test)))
        assert compose_values(learn(train), test).right.all()

    def test_the_papers_recipe_taken_literally_misses_word_pairs(self) -> None:
        train, test = (generate("fair_nli/hardest", split, **SMALL | {"vocabulary": 60}) for split in ("train", "test"))
        certificate = certify(train, test)
        assert not certificate.fair
        assert {one.function for one in certificate.violations} <= set(LEXICAL)
        for violation in certificate.violations[:20]:
            first, second = violation.inputs
            assert first.rstrip("0123456789") == second.rstrip("0123456789")  # type: ignore[union-attr]
            assert first != second
        answers = compose_values(learn(train), test)
        assert certificate.answered == int(answers.right.sum()) < len(test)
        assert compose_values(learn(train, given=LEXICAL), test).right.all()

    def test_whole_classes_held_out(self) -> None:
        for held in (False, True):
            train, test = (generate("fair_nli/rho-1-4", s, whole_classes=held, **SMALL) for s in ("train", "test"))
            space = classes(codes_of(generate("fair_nli/rho-1-4", whole_classes=held, **SMALL | {"train": 30_000})))
            assert bool(np.isin(classes(codes_of(test)), space).any()) != held
            assert certify(train, test, given=LEXICAL).fair

    def test_other_split_seeds_are_other_splits(self) -> None:
        one, two = (generate("fair_nli/hardest", split_seed=seed, **SMALL) for seed in (0, 1))
        assert len(np.unique(codes_of(one))) == len(np.unique(codes_of(two))) == 536
        assert set(codes_of(one)) != set(codes_of(two))
        again = generate("fair_nli/hardest", seed=1, **SMALL)
        assert set(codes_of(again)) == set(codes_of(one))  # another draw of the same split
        assert again.fingerprint != one.fingerprint

    def test_labels_stay_balanced_where_many_draws_are_equal(self) -> None:
        train = generate("fair_nli/hardest", **SMALL | {"vocabulary": 2, "train": 9_000})
        assert list(train.labels().values())[len(Relation) : len(Relation) + 3] == [3_000] * 3
        assert not len(train.duplicates())

    def test_a_mirror_without_one_projection(self) -> None:
        train = generate("fair_nli/rho-1-4", **SMALL | {"train": 20_000})
        fact = ("NEGVP", ("ε/not", "⊏"))
        without = mirror(train, fact, given=(*LEXICAL, "NP_*", "VP", "OBJ", "ROOT"))
        missing = certify(without, train, given=(*LEXICAL, "NP_*", "VP", "OBJ", "ROOT")).violations
        assert [one[:2] for one in missing] == [fact]


class TestLaws:
    def test_workers_chunks_and_order_change_nothing(self) -> None:
        whole = generate("fair_nli/hardest-strict", **SMALL)
        assert generate("fair_nli/hardest-strict", workers=2, chunk=701, **SMALL).fingerprint == whole.fingerprint
        assert generate("fair_nli/hardest-strict", size=1000, **SMALL).fingerprint == whole[:1000].fingerprint

    def test_no_more_rows_than_there_are(self) -> None:
        with pytest.raises(SplitError, match=r"3,000 rows of train; 3,001 were asked for. Set train=3001"):
            generate("fair_nli/hardest", size=3_001, **SMALL)

    def test_trees_say_what_the_tables_say(self) -> None:
        corpus = generate("fair_nli/rho-1-8", "test", **SMALL)
        corpus.forest.checked()
        assert set(np.diff(corpus.forest.start).tolist()) == {33}
        assert int((~corpus.forest.leaf).sum()) == 15 * len(corpus)
        codes = codes_of(corpus)
        wanted = targets(fragment_values(codes))
        wanted[:, -1] += len(Relation)
        assert (figure_4(corpus) == wanted).all()
        assert len(TARGETS) == 12
        assert (corpus.targets[:, 0] - len(Relation) == labels(codes)).all()

    def test_golden(self) -> None:
        """A change here changes published data: raise the task's version."""
        golden = json.loads((Path(__file__).parents[1] / "golden" / "fair_nli_corpora.json").read_text())
        made = {name: generate(f"fair_nli/{name}", "test", **SMALL).fingerprint for name in golden}
        assert made == golden

    @pytest.mark.parametrize(
        ("chosen", "message"),
        [
            ({"redundancy": 1.5}, "redundancy = 1.5: a share between 0"),
            ({"lexical": "lax"}, "lexical = 'lax': 'given' or 'strict'"),
            ({"vocabulary": 1}, "vocabulary = 1: 2 to 5,000 words"),
            (
                {"train": 900},
                "a core of 536 pairs, and with labels in equal thirds that takes at least 1,272 rows",
            ),
            ({"train": 9_000, "lexical": "strict"}, "a core of 10,375 pairs"),
        ],
    )
    def test_what_cannot_be_says_so(self, chosen: dict[str, object], message: str) -> None:
        with pytest.raises(SpecError, match=message):
            TASKS.build("fair_nli", chosen)


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    return generate("fair_nli/hardest", "test", **SMALL)


class TestFiles:
    @pytest.mark.parametrize("name", ["a.snli.jsonl", "a.jsonl", "a.parquet"])
    def test_round_trips(self, corpus: Corpus, name: str, tmp_path: Path) -> None:
        write(corpus, tmp_path / name)
        again = read(tmp_path / name)
        assert again.fingerprint == corpus.fingerprint
        assert certify(again, corpus).fair

    def test_snli_names(self, corpus: Corpus, tmp_path: Path) -> None:
        write(corpus[:1], tmp_path / "a.snli.jsonl")
        row = json.loads((tmp_path / "a.snli.jsonl").read_text())
        assert set(row) == {"gold_label", "sentence1", "sentence2", "pairID"}
        assert f"{row['sentence1']} {row['sentence2']}" == corpus[0].text
        assert [row["gold_label"]] == list(corpus[0].target)

    def test_wrong_labels_and_nodes_are_found(self, corpus: Corpus, tmp_path: Path) -> None:
        assert self.problems(corpus, tmp_path) == []
        asked = corpus.targets.copy()
        asked[5] = len(Relation) + (asked[5] - len(Relation) + 1) % 3
        assert self.problems(dataclasses.replace(corpus, targets=asked), tmp_path) == [(6, "wrong answer")]
        values = corpus.values.copy()
        values[7 * 33 + 32] = (values[7 * 33 + 32] + 1) % len(Relation)
        assert self.problems(dataclasses.replace(corpus, values=values), tmp_path) == [(8, "wrong node value")]

    def test_wrong_labels_of_an_snli_file(self, corpus: Corpus, tmp_path: Path) -> None:
        path = tmp_path / "a.snli.jsonl"
        write(corpus, path)
        assert verifying.verify(path, prover="table", sample=None).holds
        lines = path.read_text().splitlines(keepends=True)
        label, other = json.loads(lines[3])["gold_label"], "neutral"
        lines[3] = lines[3].replace(label, other if label != other else "entailment", 1)
        path.write_text("".join(lines))
        report = verifying.verify(path, prover="table", sample=None)
        assert [(problem.line, problem.kind) for problem in report.problems] == [
            (4, "wrong answer"),
            (4, "wrong label"),
        ]
        assert report.answers == "table on 600 pairs of a.snli.jsonl, the rules of fair_nli"
        done = CliRunner().invoke(app, ["verify", str(path), "--prover", "table", "--sample", "0"])
        assert done.exit_code == 1
        assert f"{path}:4: wrong label: the file says" in done.output

    def problems(self, corpus: Corpus, folder: Path) -> list[tuple[int | None, str]]:
        write(corpus, folder / "a.parquet")
        return [(problem.line, problem.kind) for problem in verifying.verify(folder / "a.parquet").problems]

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"gold_label": "maybe"}, "line 2: \"gold_label\" is 'maybe'; expected entailment, neutral, contradiction"),
            ({"sentence1": "every dog barks"}, 'line 2: "sentence1" has 3 tokens; a sentence has 9'),
            ({"sentence2": "all a b emptystring c d some e f"}, "line 2: 'all' cannot stand as QS of the hypothesis"),
            ({"sentence2": "every a emptystring emptystring c d some e f"}, "line 2: NS is empty"),
            ({"sentence2": "every a b emptystring c d some b f"}, "line 2: 'b' stands both as NS and as AdjO"),
            ({"pairID": "0"}, "line 2: the pairID '0' stands on line 1 already"),
            ({"genre": "none"}, "line 2: the field 'genre' is unknown"),
            ({"sentence1": 7}, 'line 2: a line is an object with "sentence1"'),
        ],
    )
    def test_bad_lines_are_named(self, change: dict[str, object], message: str, tmp_path: Path) -> None:
        sentence = "every a b emptystring c d some e f"
        good = {"gold_label": "entailment", "sentence1": sentence, "sentence2": sentence}
        rows = [good | {"pairID": "0"}, good | {"pairID": "1"} | change]
        path = tmp_path / "a.snli.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        with pytest.raises(FormatError, match=message):
            read(path)

    def test_words_from_elsewhere(self, tmp_path: Path) -> None:
        """The paper's Figure 4."""
        row = {
            "gold_label": "entailment",
            "sentence1": "every tall kid emptystring happily kicks every emptystring rock",
            "sentence2": "no tall kid doesnot emptystring kicks some large rock",
        }
        (tmp_path / "a.snli.jsonl").write_text(json.dumps(row) + "\n")
        corpus = read(tmp_path / "a.snli.jsonl")
        shown = [corpus.outcomes[value] for value in figure_4(corpus)[0]]
        assert shown == ["≡", "≡", "⊏", "≡", "⊐", "≡", "≡", "⊏", "⊐", "⊏", "|", "entailment"]
        assert verify_labels(corpus, "table").holds

    def test_only_pairs_are_written(self, tmp_path: Path) -> None:
        with pytest.raises(FormatError, match="only pairs of sentences can be written in this format"):
            write(generate("listops/d20s", size=3), tmp_path / "a.snli.jsonl")
        lists = generate("listops/d20s", size=3)
        with pytest.raises(FairnessError, match="not aligned trees"):
            codes_of(lists)
        with pytest.raises(FairnessError, match="not aligned trees"):
            figure_4(lists)


class TestProvers:
    def test_the_table_agrees_and_a_wrong_label_is_found(self) -> None:
        corpus = generate("fair_nli/hardest", "test", **SMALL)
        assert verify_labels(corpus, "table", None) == dataclasses.replace(
            verify_labels(corpus, "table", 0), asked=len(corpus)
        )
        asked = corpus.targets.copy()
        asked[11] = OUTCOMES.index("neutral" if corpus[11].target != ("neutral",) else "entailment")
        report = verify_labels(dataclasses.replace(corpus, targets=asked), "table", None)
        assert [one.row for one in report.disagreements] == [11]
        assert not report.holds

    def test_samples_follow_the_seed(self) -> None:
        corpus = generate("fair_nli/hardest", "test", **SMALL)
        wrong = dataclasses.replace(corpus, targets=(corpus.targets - 7 + 1) % 3 + 7)
        rows = [[one.row for one in verify_labels(wrong, "table", 50, seed).disagreements] for seed in (1, 1, 2)]
        assert rows[0] == rows[1] != rows[2]
        assert len(rows[0]) == 50

    def test_z3_agrees_on_a_sample(self) -> None:
        pytest.importorskip("z3")
        report = verify_labels(generate("fair_nli/hardest", "test", **SMALL), "z3", 30)
        assert (report.asked, report.disagreements, report.unknown) == (30, (), ())


def test_the_ladder_of_the_hardest_task() -> None:
    """The ceilings of the specification (4.6), exact on our own split: parity is two thirds, whatever the split."""
    found = {
        rung.name: 100 * rung.accuracy
        for rung in shortcuts.ladder(generate("fair_nli/hardest", "test", size=300)).rungs
    }
    assert abs(found["parity of negative words"] - 200 / 3) < 1e-9
    for name, recorded in {
        "phrase relations": 54.8,
        "function words": 82.8,
        "phrase relations and parity": 88.0,
        "phrase relations and bags of function words": 97.2,
        "phrase relations and function words": 100.0,
    }.items():
        assert abs(found[name] - recorded) < 0.6, (name, found[name])

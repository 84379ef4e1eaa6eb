"""The paper's eight sentences and their larger kin."""

from __future__ import annotations

import dataclasses
import itertools
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pomona.base.errors import SpecError
from pomona.data import verification as verifying
from pomona.data.formats import read, write
from pomona.data.task import generate
from pomona.fairness import certify, check, compose_values, learn, minimal
from pomona.tasks.propositional import CONNECTIVES, Propositional, every_sentence

SENTENCES = every_sentence()


class TestSection34:
    """Constants of the paper's section 3.4 and of our specification."""

    def test_eight_sentences_and_their_truth(self) -> None:
        assert SENTENCES.texts == [f"{v} ⇒ {u} {w}" for v in "TF" for u in "¬ε" for w in "TF"]
        assert [example.target[0] for example in SENTENCES] == list("FTTFTTTT")
        assert [example.values[4] for example in SENTENCES] == list("FTTFFTTF")

    def test_exactly_4_of_70_splits_are_fair(self) -> None:
        fair, scores = [], Counter()
        for rows in itertools.combinations(range(8), 4):
            train = SENTENCES[list(rows)]
            test = SENTENCES[[row for row in range(8) if row not in rows]]
            certificate = certify(train, test)
            right = compose_values(learn(train), test).right
            assert certificate.fair == bool(right.all())
            fair += [rows] if certificate.fair else []
            scores[int(right.sum())] += 1
        assert fair == [(0, 1, 6, 7), (0, 2, 5, 7), (1, 3, 4, 6), (2, 3, 4, 5)]
        assert scores == {0: 18, 1: 32, 2: 16, 4: 4}

    def test_fair_subsets_by_size(self) -> None:
        subsets = [rows for size in range(1, 9) for rows in itertools.combinations(range(8), size)]
        fair = Counter(len(rows) for rows in subsets if certify(SENTENCES[list(rows)], SENTENCES).fair)
        assert fair == {4: 4, 5: 16, 6: 20, 7: 8, 8: 1}

    def test_four_is_the_fewest(self) -> None:
        assert repr(minimal(SENTENCES)) == "FairSet(4 of 8 examples, the fewest possible)"

    def test_the_preset_is_the_papers_table_1(self) -> None:
        train, test = generate("propositional/paper"), generate("propositional/paper", "test")
        assert sorted(SENTENCES.texts.index(text) for text in train.texts) == [1, 3, 4, 6]
        assert sorted(SENTENCES.texts.index(text) for text in test.texts) == [0, 2, 5, 7]


settings_of_any_kind = st.fixed_dictionaries(
    {
        "depth": st.integers(1, 3),
        "connectives": st.lists(st.sampled_from(list(CONNECTIVES)), min_size=1, max_size=4, unique=True).map(tuple),
        "fair_by": st.sampled_from(["type", "node"]),
        "split_seed": st.integers(0, 5),
    }
)


class TestTheGenerator:
    @settings(max_examples=25)
    @given(settings_of_any_kind, st.integers(0, 3))
    def test_every_split_is_fair_and_disjoint(self, chosen: dict[str, object], seed: int) -> None:
        small = {"train": 4 * len(chosen["connectives"]) if chosen["depth"] == 1 else 120, "dev": 0, "test": 4}  # type: ignore[arg-type]
        train, test = (generate("propositional", split, seed, **small, **chosen) for split in ("train", "test"))
        assert certify(train, test).fair
        certificate = certify(train, test, by=chosen["fair_by"])  # type: ignore[arg-type]
        assert certificate.fair
        assert check(certificate, train, test)
        assert not set(train.texts) & set(test.texts)
        assert not len(train.duplicates())

    @settings(max_examples=20)
    @given(settings_of_any_kind)
    def test_the_core_alone_is_fair_for_every_sentence(self, chosen: dict[str, object]) -> None:
        chosen = chosen | {"depth": min(chosen["depth"], 2), "connectives": chosen["connectives"][:2]}  # type: ignore[call-overload,index]
        task = Propositional(train=0, dev=0, test=0, **chosen)  # type: ignore[arg-type]
        core = task._corpus_of(task.core())
        assert certify(core, every_sentence(**chosen), by=task.fair_by).fair  # type: ignore[arg-type]

    def test_truth_tables(self) -> None:
        """By Python's own operators, on sentences of depth 2."""
        words = {"⇒": "<=", "∧": "and", "∨": "or", "⇔": "==", "⊕": "!=", "⇐": ">=", "¬": "not", "ε": ""}
        corpus = every_sentence(depth=2, connectives=("⇒", "∧", "∨", "⇔", "⊕", "⇐"))
        for row in range(0, len(corpus), 997):
            left, right = corpus[row].tokens[:4], corpus[row].tokens[6:]
            joint, unary = corpus[row].tokens[4:6]

            def python(tokens: tuple[str, ...]) -> str:
                a, connective, operator, b = (words.get(token, str(token == "T")) for token in tokens)
                return f"({a} {connective} ({operator} {b}))"

            sentence = f"({python(left)} {words[joint]} ({words[unary]} {python(right)}))"
            assert corpus[row].target == ("T" if eval(sentence) else "F",)

    @pytest.mark.parametrize(("name", "table"), [("↑", "FTTT"), ("↓", "FFFT")])
    def test_nand_and_nor(self, name: str, table: str) -> None:
        corpus = every_sentence(connectives=(name,), unary=("ε",))
        assert [example.target[0] for example in corpus] == list(table)

    def test_workers_and_chunks_change_nothing(self) -> None:
        whole = generate("propositional/deep", size=3000)
        assert generate("propositional/deep", size=3000, workers=2, chunk=700).fingerprint == whole.fingerprint
        assert generate("propositional/deep", size=3000, seed=1).fingerprint != whole.fingerprint

    def test_files_round_trip_and_verify(self, tmp_path: Path) -> None:
        corpus = generate("propositional/deep", "test", size=50)
        for kind in ("jsonl", "parquet"):
            write(corpus, tmp_path / f"test.{kind}")
            assert read(tmp_path / f"test.{kind}").fingerprint == corpus.fingerprint
        report = verifying.verify(tmp_path / "test.parquet")
        assert report.holds
        assert report.answers == "the rules of propositional"
        values = corpus.values.copy()
        node = int(np.flatnonzero(~corpus.forest.leaf)[3])
        values[node] ^= 1
        write(dataclasses.replace(corpus, values=values), tmp_path / "bad.parquet")
        assert [problem.kind for problem in verifying.verify(tmp_path / "bad.parquet").problems] == ["wrong node value"]

    @pytest.mark.parametrize(
        ("chosen", "message"),
        [
            ({"depth": 0}, "depth = 0: sentences have depth 1 to 8"),
            ({"connectives": ["⇒", "xor"]}, "'xor' is neither a connective nor a unary operator"),
            ({"connectives": ["⇒", "⇒"]}, "name at least one, each once"),
            ({"train": 5, "dev": 0, "test": 4}, "9 sentences were asked for; depth 1 has 8"),
            ({"train": 3, "dev": 0, "test": 4}, "train = 3: a fair training set holds the 4 sentences of its core"),
            ({"train": 4, "dev": 0, "test": 4, "fair_by": "leaf"}, "fair_by = 'leaf'"),
            ({"train": 4, "dev": 0, "test": 2, "iid": 2}, "iid = 0 here"),
        ],
    )
    def test_what_cannot_be_says_so(self, chosen: dict[str, object], message: str) -> None:
        with pytest.raises(SpecError, match=message):
            generate("propositional", **chosen)  # type: ignore[arg-type]

"""A stranger's own data: trees in JSONL, brackets and attribute tables, with values of any type."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

import pomona as pm
from pomona.trees.values import exact_key

LEAF_VALUES = st.one_of(
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(st.characters(codec="utf-8", exclude_characters="\r"), min_size=1, max_size=4),
    st.lists(st.integers(0, 9) | st.booleans(), max_size=3),
)


@given(values=st.lists(LEAF_VALUES, min_size=1, max_size=6))
@settings(max_examples=60)
def test_the_text_of_a_leaf_is_its_value_and_its_type_may_be_left_out(folder: Path, values: list[object]) -> None:
    """With a type, without one, or with one that says the same: the tokens are the values, whatever their type."""
    texts = [str(tuple(value) if isinstance(value, list) else value) for value in values]
    leaves = [
        [{"type": "lit", "value": value} for value in values],
        [{"value": value} for value in values],
        [{"type": text, "value": value} for text, value in zip(texts, values, strict=True)],
    ]
    path = folder / "leaves.jsonl"
    path.write_text("".join(json.dumps({"tree": {"type": "S", "children": here}}) + "\n" for here in leaves))
    corpus = pm.read(path)
    assert [example.tokens for example in corpus] == [("[S", *texts, "]")] * 3
    assert corpus.forest[1:2].nested() == corpus.forest[2:3].nested() == [("S", *texts)]
    assert corpus.forest[0:1].nested() == [("S", *["lit"] * len(values))]
    again = pm.read(pm.write(corpus, folder / "again.jsonl"))
    assert again.fingerprint == corpus.fingerprint
    assert [exact_key(value) for value in again[1].values] == [exact_key(value) for value in corpus[1].values]


def test_the_documented_format_has_no_false_duplicates(folder: Path) -> None:
    """The eight sentences of docs/fairness.md as it writes them: types of leaves are alike, values are not."""
    path = folder / "sentences.jsonl"
    rows = []
    for left, unary, right in itertools.product("TF", "¬ε", "TF"):
        inner = right if unary == "ε" else "TF"[right == "T"]
        outer = "F" if (left, inner) == ("T", "F") else "T"
        below = [{"type": "op", "value": unary}, {"type": "lit", "value": right}]
        c1 = {"type": "C1", "value": inner, "children": below}
        children = [{"type": "lit", "value": left}, {"type": "op", "value": "⇒"}, c1]
        rows.append({"tree": {"type": "C2", "value": outer, "children": children}})
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert pm.verify(path).problems == ()
    assert pm.read(path)[1].text == "[C2 T ⇒ [C1 ¬ F ] ]"
    path.write_text("".join(json.dumps(row) + "\n" for row in [*rows, rows[0]]))
    assert [(fault.line, fault.kind) for fault in pm.verify(path).problems] == [(9, "duplicate")]

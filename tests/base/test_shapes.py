"""Shapes of JSON values: what has the shape passes, what has not is named with its place."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pomona.base.errors import FormatError
from pomona.base.shapes import ANYTHING, COUNT, NUMBER, SHARE, TEXT, TRUTH, WHOLE, Each, Either, Maybe, check, fault

SHAPE = {"name": TEXT, "share": SHARE, "pairs": [(COUNT, Maybe(NUMBER))], "more?": Each(Either(TRUTH, WHOLE))}
GOOD = {"name": "x", "share": 0.5, "pairs": [[1, None], [2, -3.5]], "more": {"a": True, "b": -7}, "other": [{}]}

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=4),
    max_leaves=12,
)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"name": 3}, "name is 3, not a text"),
        ({"name": "\ud800"}, 'name is "\\ud800", not a text'),
        ({"share": 2}, "share is 2, not a number from 0 to 1"),
        ({"share": True}, "share is true, not a number from 0 to 1"),
        ({"share": math.nan}, "share is NaN, not a number from 0 to 1"),
        ({"pairs": {}}, "pairs is an object of 0, not a list"),
        ({"pairs": [[1]]}, "pairs[0] is a list of 1, not a list of 2"),
        ({"pairs": [[1, 1], [-1, 1]]}, "pairs[1][0] is -1, not a whole number that is not negative"),
        ({"pairs": [[1, 10**30]]}, "pairs[0][1] is 1000000000000000000000000000000, not a number"),
        ({"more": {"a": 0.5}}, "more.a is 0.5, not a whole number"),
        ({"more": None}, "more is null, not an object"),
        ({"name": "9" * 5000 + "\ud800"}, 'name is "' + "9" * 59 + "..., not a text"),
    ],
)
def test_the_place_of_a_fault_is_named(change: dict[str, Any], words: str) -> None:
    assert fault(GOOD, SHAPE) == ""
    with pytest.raises(FormatError) as error:
        check({**GOOD, **change}, SHAPE, "a.json")
    assert str(error.value) == f"a.json: {words}"


def test_what_is_missing_is_named_and_what_may_be_missing_may() -> None:
    assert fault({key: value for key, value in GOOD.items() if key != "more"}, SHAPE) == ""
    assert fault({}, SHAPE) == "name is missing"
    assert fault([], SHAPE) == "it is a list of 0, not an object"


@given(VALUES)
def test_any_value_has_a_shape_or_a_fault_and_never_an_exception(value: Any) -> None:
    assert fault(value, ANYTHING) == ""
    assert fault(value, Maybe(SHAPE)) != "" or value is None
    assert (fault(value, NUMBER) == "") == (fault([value], [NUMBER]) == "") == (fault({"x": value}, Each(NUMBER)) == "")
    assert len(fault(value, SHAPE)) < 400

"""Letters written from the end of a text, eight at a time."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pomona.base.compiled import compiled
from pomona.base.letters import packed, put_letters

_put = compiled(lambda word, text, at: put_letters(word, text, at))


@given(st.lists(st.binary(min_size=1, max_size=8), max_size=12))
def test_short_texts_one_before_the_other(pieces: list[bytes]) -> None:
    whole = b"".join(pieces)
    text = np.full(len(whole) + 8, ord("?"), np.uint8)
    at = len(text)
    for piece in reversed(pieces):
        at = _put(packed(piece), text, at) - len(piece)
    assert text[at:].tobytes() == whole
    assert at == 8


def test_a_long_text_keeps_its_end() -> None:
    assert packed(b"a text of many letters") == packed(b" letters")

"""Random numbers by address: a stream is fixed by its key and number, and no two streams meet."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import pytest
from scipy import stats

from pomona.base.compiled import compiled
from pomona.base.randomness import below, mix, open_stream, stream_key

MASK = (1 << 64) - 1


def slow_mix(word: int) -> int:
    word = ((word ^ (word >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    word = ((word ^ (word >> 27)) * 0x94D049BB133111EB) & MASK
    return word ^ (word >> 31)


@compiled
def words(key: np.uint64, first: int, streams: int, count: int) -> Any:
    found = np.empty((streams, count), np.uint64)
    for number in range(streams):
        state, gamma = open_stream(key, first + number)
        for place in range(count):
            state += gamma
            found[number, place] = mix(state)
    return found


@compiled
def throws(key: np.uint64, count: int, bound: int) -> Any:
    found = np.empty(count, np.int64)
    state, gamma = open_stream(key, 0)
    for place in range(count):
        state += gamma
        found[place] = below(mix(state) >> np.uint64(32), bound)
    return found


def test_words_are_the_documented_function_of_key_stream_and_place() -> None:
    key = stream_key("test", 7)
    got = words(key, 3, 5, 4)
    for number in range(5):
        state = slow_mix((int(key) + (number + 3) * 0x9E3779B97F4A7C15) & MASK)
        gamma = slow_mix(state ^ 0xD6E8FEB86659FD93) | 1
        assert [int(word) for word in got[number]] == [slow_mix((state + n * gamma) & MASK) for n in range(1, 5)]


def test_how_many_are_asked_for_changes_nothing() -> None:
    key = stream_key("test", 7)
    assert np.array_equal(words(key, 0, 100, 20)[40:60, :5], words(key, 40, 20, 5))


def test_streams_of_neighbouring_seeds_do_not_overlap() -> None:
    drawn = np.concatenate([words(stream_key("test", seed), 0, 1000, 50).ravel() for seed in range(8)])
    assert len(np.unique(drawn)) == len(drawn) == 400_000


def test_a_key_is_its_purpose_in_canonical_form() -> None:
    assert stream_key("a", {"x": 1, "y": 2.5}, 7) == stream_key("a", {"y": 2.5, "x": 1}, 7)
    assert stream_key("a", (1, 2)) == stream_key("a", [1, 2])
    purposes = [("a",), ("a", 1), ("a", "1"), ("a1",), ("a", 1.0), ("a", True), ("a", None), ("a", [1]), ("b", 1), ()]
    assert len({int(stream_key(*purpose)) for purpose in purposes}) == len(purposes)
    text = b'["listops",{"branching":0.25},"train",7]'
    digest = hashlib.sha256(text).digest()
    assert int(stream_key("listops", {"branching": 0.25}, "train", 7)) == int.from_bytes(digest[:8], "little")
    with pytest.raises(TypeError):
        stream_key({1, 2})


@pytest.mark.parametrize("bound", [1, 2, 7, 10, 100])
def test_below_is_uniform(bound: int) -> None:
    seen = throws(stream_key("uniform", bound), 100_000, bound)
    counts = np.bincount(seen, minlength=bound)
    assert len(counts) == bound
    assert bound == 1 or stats.chisquare(counts).pvalue > 1e-3


def test_the_ends_of_below() -> None:
    for bound in (1, 3, 2**31):
        assert below(np.uint64(0), bound) == 0
        assert below(np.uint64(2**32 - 1), bound) == bound - 1


def test_bits_are_fair_across_and_along_streams() -> None:
    drawn = words(stream_key("bits", 1), 0, 400, 400)
    for grid in (drawn, drawn.T[:, ::-1]):
        for shift in (0, 31, 32, 63):
            bits = ((grid >> np.uint64(shift)) & np.uint64(1)).astype(np.int64)
            assert stats.binomtest(int(bits.sum()), bits.size).pvalue > 1e-4
            changes = int((bits[:, 1:] != bits[:, :-1]).sum())
            assert stats.binomtest(changes, bits[:, 1:].size).pvalue > 1e-4

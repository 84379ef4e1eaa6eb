"""Random numbers by address: word n of stream i is a function of (key, i, n) and of nothing else.

    key = stream_key("listops", {"branching": 0.25}, "train", 7)      SHA-256 of what the stream is for
    state, gamma = open_stream(key, i)                                stream i, for example number i
    word = mix(state + n * gamma)                                     its n-th 64-bit word

So the order of work, the number of workers, the size of chunks and the number of examples change nothing, and seeds 7
and 8 have no words in common (as they would with `seed + i`). The construction is that of splittable generators
(Steele, Lea and Flood 2014): each stream has its own odd increment, and the output function is the 64-bit finaliser of
MurmurHash3 in Stafford's variant 13.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

import numpy as np
import numpy.typing as npt

from pomona.base.compiled import compiled, inlined

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)
_OTHER = np.uint64(0xD6E8FEB86659FD93)
_ONE = np.uint64(1)
_27, _30, _31, _32 = np.uint64(27), np.uint64(30), np.uint64(31), np.uint64(32)


def stream_key(*purpose: Any) -> np.uint64:
    """A 64-bit key for a purpose: names, numbers and plain containers of them, in a canonical form."""
    text = json.dumps(purpose, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return np.uint64(int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little"))


@inlined
def mix(word: np.uint64) -> np.uint64:
    """A bijection of 64-bit words in which every input bit affects every output bit."""
    word = (word ^ (word >> _30)) * _FIRST
    word = (word ^ (word >> _27)) * _SECOND
    return word ^ (word >> _31)


@inlined
def open_stream(key: np.uint64, number: int) -> tuple[np.uint64, np.uint64]:
    """State and increment of stream `number`; add the increment before each word and `mix` the sum."""
    state = mix(key + np.uint64(number) * _GOLDEN)
    gamma = mix(state ^ _OTHER) | _ONE
    return state, gamma


@inlined
def below(half: np.uint64, bound: int) -> int:
    """A number 0 .. bound-1 from 32 random bits (bias below bound / 2**32)."""
    return int(np.int64((half * np.uint64(bound)) >> _32))


def random_order(key: np.uint64, count: int) -> npt.NDArray[np.int64]:
    """A random permutation of 0 .. count - 1: the order of as many random words."""
    words = np.empty(count, np.uint64)
    _fill(key, words)
    return np.argsort(words, kind="stable")


@compiled
def _fill(key: np.uint64, words: npt.NDArray[np.uint64]) -> None:
    state, gamma = open_stream(key, 0)
    for n in range(len(words)):
        state += gamma
        words[n] = mix(state)

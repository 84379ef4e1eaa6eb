"""The reference game of the TRE paper (section 7): its referents, its two readings, its chance and its first weights.

    READINGS["code"]            # the released code, which made the published numbers
    READINGS["paper"]           # what the paper's text says: they disagree
    REFERENTS[0]                # (("stroke", "red"), ("fill", "red")): the derivation that TRE is given

A referent is two objects, each a part and its colour: 48 of them, of which a pair sees 32 while it trains. The speaker
turns 12 binary features into the first state of a GRU and samples four symbols; the listener turns the message into the
first states of two GRUs, which say the two parts and the two colours. Each right answer is a quarter of the reward.
`pairs` plays it.

Noise is drawn by address, from (seed, pair, step): a pair is trained to the same weights alone or among others.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from pomona.base.arrays import Floats, Ints
from pomona.base.compiled import compiled
from pomona.base.errors import SpecError
from pomona.base.randomness import mix, open_stream, stream_key

PARTS = ("stroke", "fill", "shadow")
COLOURS = ("red", "green", "blue", "black")
REFERENTS = tuple(
    ((one, first), (two, second))
    for one, two in itertools.combinations(PARTS, 2)
    for first in COLOURS
    for second in COLOURS
)  # 48 derivations, each ((part, colour), (part, colour))
TRAINED = 2 * len(REFERENTS) // 3
ANSWERS = {"parts": len(PARTS), "colours": len(COLOURS)}  # what each of the listener's two decoders says, twice

# [48, 2]: the parts and the colours that the listener must say; [48, 12]: what the speaker sees
TARGETS = {
    "parts": np.array([[PARTS.index(part) for part, _ in pair] for pair in REFERENTS]),
    "colours": np.array([[COLOURS.index(colour) for _, colour in pair] for pair in REFERENTS]),
}
FEATURES = np.zeros((len(REFERENTS), len(PARTS) * len(COLOURS)))
for _object in range(2):
    FEATURES[
        np.arange(len(REFERENTS)), TARGETS["parts"][:, _object] * len(COLOURS) + TARGETS["colours"][:, _object]
    ] = 1.0


@dataclass(frozen=True)
class Game:
    """How pairs are built and trained. The defaults are the released code's, which made the published numbers."""

    hidden: int = 256
    symbols: int = 16  # that may be sent; two more, start and padding, have a place in every one-hot vector
    length: int = 4
    batch: int = 256
    steps: int = 200
    optimiser: Literal["rmsprop", "adam"] = "rmsprop"
    rate: float = 3e-3
    baseline: Literal["learned", "average"] = "learned"  # linear in the features, or a running mean of the reward
    listener: Literal["supervised", "policy"] = "supervised"  # told the right answer, or rewarded for its own
    inputs: Literal["one_hot", "embedded"] = "one_hot"  # symbols as the GRUs see them
    reads: Literal["flat", "recurrent"] = "flat"  # the listener sees the message at once, or by a GRU of its own
    entropy: float = 0.01  # bonus, for speaker and listener
    loose: bool = True  # the loss's softmax counts start and padding, which are never sampled

    def __post_init__(self) -> None:
        for name in ("hidden", "symbols", "length", "batch", "steps"):
            if getattr(self, name) < 1:
                raise SpecError(f"a game's {name} must be 1 or more, got {getattr(self, name)}")
        if self.symbols**self.length * len(REFERENTS) > 2**62:
            raise SpecError(f"{self.symbols} symbols in {self.length} places are too many messages to number")

    @property
    def width(self) -> int:
        """Symbols, start and padding."""
        return self.symbols + 2


READINGS = {
    "code": Game(),
    "paper": Game(
        steps=500, optimiser="adam", rate=1e-3, baseline="average", listener="policy",
        inputs="embedded", reads="recurrent", entropy=0.0, loose=False,
    ),
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class Languages:
    """What trained pairs say and how well they are understood, greedily."""

    messages: npt.NDArray[np.int64]  # [pairs, 48, length]
    rewards: Floats  # [pairs, 48]
    trained: npt.NDArray[np.bool_]  # [pairs, 48]: the referents that a pair was trained on


# -- chance, by address ---------------------------------------------------------------------------------------------


def uniforms(purpose: Sequence[Any], numbers: Sequence[int], count: int) -> Floats:
    """Numbers in [0, 1), [pairs, count]: stream `number` of a purpose, whoever else draws."""
    return _uniforms(stream_key("reference game", *purpose), np.asarray(numbers, np.int64), count)


@compiled
def _uniforms(key: np.uint64, numbers: Ints, count: int) -> Floats:
    out = np.empty((len(numbers), count))
    for row in range(len(numbers)):
        state, gamma = open_stream(key, numbers[row])
        for column in range(count):
            state += gamma
            out[row, column] = np.float64(mix(state) >> np.uint64(11)) / 9007199254740992.0
    return out


def trained_on(seed: int, numbers: Sequence[int]) -> npt.NDArray[np.int64]:
    """The 32 referents of each pair's training, [pairs, 32]; the other third is never shown to it."""
    return np.argsort(uniforms(("split", seed), numbers, len(REFERENTS)), axis=1, kind="stable")[:, :TRAINED]


# -- weights --------------------------------------------------------------------------------------------------------


def shapes(game: Game) -> dict[str, tuple[tuple[int, ...], int]]:
    """Each weight of a pair: its shape, and the number of inputs that sets how large it begins (torch's defaults)."""
    made: dict[str, tuple[tuple[int, ...], int]] = {}

    def linear(name: str, inputs: int, outputs: int) -> None:
        made[f"{name}.weight"], made[f"{name}.bias"] = ((inputs, outputs), inputs), ((outputs,), inputs)

    def gru(name: str, vocabulary: int) -> None:
        seen = vocabulary
        if game.inputs == "embedded":
            made[f"{name}.embedding"] = ((vocabulary, game.hidden), 1)
            seen = game.hidden
        for part, rows in (("input", seen), ("state", game.hidden)):
            made[f"{name}.{part}.weight"] = ((rows, 3 * game.hidden), game.hidden)
            made[f"{name}.{part}.bias"] = ((3 * game.hidden,), game.hidden)

    linear("speaker.first", FEATURES.shape[1], game.hidden)
    gru("speaker", game.width)
    linear("speaker.says", game.hidden, game.width)
    if game.baseline == "learned":
        linear("speaker.expects", FEATURES.shape[1], 1)
    if game.reads == "recurrent":
        gru("reader", game.width)
    for name, answers in ANSWERS.items():
        inputs = game.length * game.width if game.reads == "flat" else game.hidden
        linear(f"{name}.first", inputs, game.hidden)
        gru(name, answers + 2)
        linear(f"{name}.says", game.hidden, answers + 2)
    return made


def first_weights(game: Game, seed: int, numbers: Sequence[int]) -> dict[str, Floats]:
    """Uniform within 1 / sqrt(inputs), each weight of each pair from a stream of its own."""
    made = {}
    for name, (shape, inputs) in shapes(game).items():
        drawn = uniforms(("weights", seed, name), numbers, int(np.prod(shape)))
        made[name] = ((2.0 * drawn - 1.0) / np.sqrt(inputs)).reshape(len(numbers), *shape)
    return made

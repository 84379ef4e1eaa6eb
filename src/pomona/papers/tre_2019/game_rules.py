"""The reference game of the TRE paper (section 7): its referents, its settings, its random numbers and first weights.

    READINGS["code"]            # as in the released code, which made the published numbers
    READINGS["paper"]           # as in the paper's text, which differs
    REFERENTS[0]                # (("stroke", "red"), ("fill", "red")): a derivation, as TRE takes it

A referent is two objects, each a part with a colour. There are 48, of which each pair of agents sees 32 in training.
The speaker turns 12 binary features into the first state of a GRU and samples four symbols. The listener turns the
message into the first states of two GRUs, which name the two parts and the two colours. Each right answer is a quarter
of the reward. `agents` plays the game.

Random numbers are addressed by (seed, pair, step), so a pair is trained to the same weights alone or among others.
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
ANSWERS = {"parts": len(PARTS), "colours": len(COLOURS)}  # each of the listener's two decoders names two of these

# [48, 2]: the parts and the colours that the listener must name; [48, 12]: what the speaker sees
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
    """How pairs are built and trained. The defaults are those of the released code."""

    hidden: int = 256
    symbols: int = 16  # that can be sent; one-hot vectors have two more entries, for start and padding
    length: int = 4
    batch: int = 256
    steps: int = 200
    optimiser: Literal["rmsprop", "adam"] = "rmsprop"
    rate: float = 3e-3
    baseline: Literal["learned", "average"] = "learned"  # linear in the features, or a running mean of the reward
    listener: Literal["supervised", "policy"] = "supervised"  # trained on the right answer, or by its own reward
    inputs: Literal["one_hot", "embedded"] = "one_hot"  # how symbols enter the GRUs
    reads: Literal["flat", "recurrent"] = "flat"  # the listener sees the whole message at once, or reads it with a GRU
    entropy: float = 0.01  # bonus for entropy, of speaker and listener
    loose: bool = True  # the softmax of the loss includes start and padding, which are never sampled

    def __post_init__(self) -> None:
        for name in ("hidden", "symbols", "length", "batch", "steps"):
            if getattr(self, name) < 1:
                raise SpecError(f"a game's {name} must be 1 or more, got {getattr(self, name)}")
        if self.symbols**self.length * len(REFERENTS) > 2**62:
            raise SpecError(f"{self.symbols} symbols in {self.length} positions give too many messages to number")

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
    """The messages of trained pairs, chosen greedily, and the rewards they earn."""

    messages: npt.NDArray[np.int64]  # [pairs, 48, length]
    rewards: Floats  # [pairs, 48]
    trained: npt.NDArray[np.bool_]  # [pairs, 48]: whether a pair was trained on the referent


# -- random numbers by address --------------------------------------------------------------------------------------


def uniforms(purpose: Sequence[Any], numbers: Sequence[int], count: int) -> Floats:
    """Numbers in [0, 1), [pairs, count]. Each pair has its own stream for each purpose, independent of other pairs."""
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
    """The 32 training referents of each pair, [pairs, 32]; the other third is never shown to it."""
    return np.argsort(uniforms(("split", seed), numbers, len(REFERENTS)), axis=1, kind="stable")[:, :TRAINED]


# -- weights --------------------------------------------------------------------------------------------------------


def shapes(game: Game) -> dict[str, tuple[tuple[int, ...], int]]:
    """Each weight of a pair: its shape, and the number of inputs that sets its initial scale (torch's defaults)."""
    weights: dict[str, tuple[tuple[int, ...], int]] = {}

    def linear(name: str, inputs: int, outputs: int) -> None:
        weights[f"{name}.weight"], weights[f"{name}.bias"] = ((inputs, outputs), inputs), ((outputs,), inputs)

    def gru(name: str, vocabulary: int) -> None:
        seen = vocabulary
        if game.inputs == "embedded":
            weights[f"{name}.embedding"] = ((vocabulary, game.hidden), 1)
            seen = game.hidden
        for part, rows in (("input", seen), ("state", game.hidden)):
            weights[f"{name}.{part}.weight"] = ((rows, 3 * game.hidden), game.hidden)
            weights[f"{name}.{part}.bias"] = ((3 * game.hidden,), game.hidden)

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
    return weights


def first_weights(game: Game, seed: int, numbers: Sequence[int]) -> dict[str, Floats]:
    """Uniform within 1 / sqrt(inputs); each weight of each pair has its own random stream."""
    weights = {}
    for name, (shape, inputs) in shapes(game).items():
        drawn = uniforms(("weights", seed, name), numbers, int(np.prod(shape)))
        weights[name] = ((2.0 * drawn - 1.0) / np.sqrt(inputs)).reshape(len(numbers), *shape)
    return weights

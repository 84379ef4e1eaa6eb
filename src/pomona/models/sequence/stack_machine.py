"""Stack machine: every word pushes, stays or pops, and learns which; a number may quote what was read before.

    e_w = LN(E[w]),    frame = GRC(frame, what is added to it)       (`layers.grc`, `layers.stack_machine`)
    P(action of word w) = softmax(s A[w]),   P(w quotes) = sigmoid(s q[w]),   P(order) = softmax(s o)
    logit of answer y about a part = (tau / D) <topmost frame, e_y>  (`layers.tied_words`)

Actions cannot be learned together with a cell that does not work yet, so there are stages.

1. `soft`: the stack is a mean over actions, and the first question alone is asked of the shortest texts, then of
   longer ones. Noise in every vector keeps a frame from holding a whole stack, so using the stack pays.
2. `first`: each word has its likeliest action. The cell learns to be exact on the first part.
3. `quoting`: actions, quoting words and the order are drawn K times for each text, and learn from the reward
   r = max(log p(y), -4), each compared with the mean of the others.
4. `all`: the likeliest tables; both questions, all lengths.

What is given besides texts and answers: the action of a word depends on nothing but the word; words that spell numbers
share one action, and their numbers are known; where a part ends, and that question k is about part k; that something
may be quoted, in one of six orders; the tie of answers to words; and the curriculum. Nothing says what a bracket or an
operator is, which words quote, or what is counted how. No gold tree and no value of a node is read.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from pomona.base.arrays import Bytes
from pomona.base.errors import SpecError
from pomona.data.corpus import Corpus
from pomona.models.inputs.parts import Parts, PartsBatch, is_number, with_unknown
from pomona.models.inputs.schedule import TreeSchedule
from pomona.models.layers.grc import GRC, Tape
from pomona.models.layers.stack_machine import ORDERS, nodes_of, soft_tops
from pomona.models.layers.tied_words import Words
from pomona.models.model import MODELS, Model, Output, Shape
from pomona.models.stages import Stage

WORST = -4.0  # the least reward
SOFT, SHARP = 4.0, 16.0  # s, while the stack is soft and afterwards


@dataclass(frozen=True)
class Learning:
    """What a stage may tell the model."""

    stack: Literal["soft", "hard"] = "hard"
    questions: int = 0  # how many are asked, from the first on; 0: all
    noise: float = 0.0  # soft: deviation of the noise in every vector
    sampled: int = 1  # tables that are drawn for each text
    greedy: bool = True  # one more, in which everything is the likeliest
    policy: float = 0.3  # weight of the reward of the tables

    def __post_init__(self) -> None:
        if self.stack not in ("soft", "hard"):
            raise SpecError(f"stack = {self.stack!r}: must be soft or hard")
        if self.sampled < 0 or self.sampled + self.greedy < 1:
            raise SpecError(f"sampled = {self.sampled}, greedy = {self.greedy}: a text needs at least one table")
        for name in ("questions", "noise", "policy"):
            if not 0 <= getattr(self, name) < float("inf"):
                raise SpecError(f"{name} = {getattr(self, name)}: must be 0 or more")


@MODELS.add("stack_machine")
@dataclass(frozen=True)
class StackMachineModel(Model):
    """A gated cell on a stack; each word learns to push, stay or pop, and numbers to quote; solves ORCHARD."""

    example = "orchard/hard/min-max"
    gpu = False
    answer_positions = 1 << 17  # nothing is padded
    stage_settings = Learning

    width: int = 32  # of the vectors
    depth: int = 12  # places of the soft stack
    tied: bool = True  # an answer that is a word has the word's vector; False: a linear layer answers
    pull: float = 0.1  # tied: weight of the squared distance of the frame to the vector of the answer

    def words(self, corpus: Corpus) -> tuple[tuple[str, ...], tuple[Any, ...]]:
        words, answers = super().words(corpus)
        return with_unknown(words), answers

    def read(self, corpus: Corpus, vocabulary: tuple[str, ...], outcomes: tuple[Any, ...]) -> Parts:
        return Parts.of(corpus, vocabulary, outcomes)

    def stages(self) -> tuple[Stage, ...]:
        alone = {"sampled": 0, "policy": 0.0}
        return (
            Stage(
                "soft", longest=40, growing=True, move_on=0.95, window=20, steps=3_000, epochs=100, batch=64, rate=3e-3,
                warmup=100, weight_decay=0.01, clip=1.0, frozen=("quoting", "order"),
                settings={"stack": "soft", "questions": 1, "noise": 0.5, **alone},
            ),
            Stage(
                "first", steps=600, batch=128, rate=2e-3, warmup=20, weight_decay=0.01, clip=1.0,
                frozen=("action", "quoting", "order"), settings={"questions": 1, **alone},
            ),
            Stage(
                "quoting", longest=40, steps=600, batch=64, rate=2e-3, warmup=20, clip=1.0,
                settings={"sampled": 8, "greedy": False, "policy": 1.0},
            ),
            Stage(
                "all", steps=1_500, look=500, batch=128, rate=2e-3, warmup=20, schedule="linear", weight_decay=0.01,
                clip=1.0, frozen=("action", "quoting", "order"), settings=alone,
            ),
        )  # fmt: skip

    def build(self, shape: Shape) -> nn.Module:
        return StackMachineModule(self, shape)


@dataclass(frozen=True)
class Tables:
    """What the machines do: for each, the action of every word, whether it quotes, and an order."""

    action: Bytes  # [machines, words]
    quotes: Bytes  # [machines, words]
    order: npt.NDArray[np.int64]  # [machines]


class StackMachineModule(nn.Module):
    kind: Tensor

    def __init__(self, settings: StackMachineModel, shape: Shape) -> None:
        super().__init__()
        self.settings, self.learning = settings, Learning()
        self.words = Words(settings, shape)
        self.cell = GRC(settings.width)
        numbers = [is_number(word) for word in shape.words] or [False] * shape.vocabulary
        own = np.cumsum([not number for number in numbers])  # words that spell numbers are one kind, 0
        kind = np.unique(np.where(numbers, 0, own), return_inverse=True)[1]
        self.first_word = np.unique(kind, return_index=True)[1]  # of each kind
        self.register_buffer("kind", torch.from_numpy(kind), persistent=False)
        self.action = nn.Parameter(torch.zeros(len(self.first_word), 3))
        self.quoting = nn.Parameter(torch.zeros(shape.vocabulary))
        self.order = nn.Parameter(torch.zeros(len(ORDERS)))

    def begin_stage(self, learning: Learning) -> None:
        self.learning = learning

    def forward(self, batch: PartsBatch, random: torch.Generator | None = None) -> Output:
        leaves = self.words()
        if not self.training:
            with torch.no_grad():
                tops = self._tops(batch, np.arange(len(batch)), self._likeliest(len(batch)), leaves, keep=False)
                return Output(self.words.logits(tops, leaves), sentences=tops.flatten(1))
        learning = self.learning
        if learning.stack == "soft":
            return self._soft(batch, leaves, random)
        sampled = 0 if random is None else learning.sampled
        machines = sampled + (learning.greedy or not sampled)  # K
        tables = self._likeliest(machines * len(batch))
        if sampled:
            assert random is not None
            self._draw(tables, (machines - sampled) * len(batch), random)
        tops = self._tops(batch, np.tile(np.arange(len(batch)), machines), tables, leaves, keep=True)
        tops = tops.view(machines, len(batch), *tops.shape[1:])  # [K, batch, parts, width]
        logits = self.words.logits(tops, leaves)
        asked = self._asked(batch)
        loss, reward = self._loss(tops, logits, asked, leaves)
        penalty = self._policy_loss(batch, tables, reward) if learning.policy and machines > 1 else None
        return Output(logits[0], loss=loss, penalty=penalty, asked=asked)

    # -- hard -------------------------------------------------------------------------------------------------------

    def _tops(
        self, batch: PartsBatch, example: npt.NDArray[np.int64], tables: Tables, leaves: Tensor, *, keep: bool
    ) -> Tensor:
        """The topmost frame at the end of each part, [machines, parts, width]."""
        parts = batch.targets.shape[1]
        left, right, height, tops = nodes_of(
            batch.flat, batch.number, batch.start, parts, example, tables.action, tables.quotes, tables.order,
            len(leaves),
        )  # fmt: skip
        schedule = TreeSchedule.of_nodes(len(leaves), left, right, height, tops, np.empty(0, np.int64))
        tape = Tape.of_schedule(self.cell, leaves, schedule, keep=keep)
        nodes = tape.vectors
        if keep:
            nodes = tape.nodes(leaves, np.repeat(np.arange(len(schedule.at) - 1), np.diff(schedule.at)))
        return nodes[torch.from_numpy(schedule.root)].view(len(example), parts, -1)

    def _likeliest(self, machines: int) -> Tables:
        """The same tables for all machines: everything is the likeliest."""
        action = self.action.detach().argmax(1)[self.kind].to(torch.uint8).numpy()
        quotes = (self.quoting.detach() > 0).to(torch.uint8).numpy()
        order = int(self.order.detach().argmax())
        return Tables(
            np.tile(action, (machines, 1)), np.tile(quotes, (machines, 1)), np.full(machines, order, np.int64)
        )

    def _draw(self, tables: Tables, first: int, random: torch.Generator) -> None:
        """Draw the tables of all machines from `first` on."""
        machines = len(tables.order) - first

        def drawn(logits: Tensor) -> Tensor:  # of [choices, outcomes], for each machine
            p = (SHARP * logits.detach().double()).softmax(-1)
            return torch.multinomial(p, machines, replacement=True, generator=random).T

        tables.action[first:] = drawn(self.action)[:, self.kind].to(torch.uint8).numpy()
        either = torch.stack([torch.zeros_like(self.quoting), self.quoting], 1)
        tables.quotes[first:] = drawn(either).to(torch.uint8).numpy()
        tables.order[first:] = drawn(self.order[None])[:, 0].numpy()

    # -- soft -------------------------------------------------------------------------------------------------------

    def _soft(self, batch: PartsBatch, leaves: Tensor, random: torch.Generator | None) -> Output:
        """The loss with a stack that is a mean over actions; nothing is quoted."""
        rows, parts = batch.targets.shape
        lengths = np.diff(batch.start)
        if self.learning.questions:
            lengths = np.where(np.arange(rows * parts) % parts < self.learning.questions, lengths, 0)
        at = np.arange(lengths.max())
        inside = at < lengths[:, None]
        places = np.where(inside, batch.start[:-1, None] + at, 0)
        words = torch.from_numpy(batch.flat[places])
        action = (SOFT * self.action).softmax(1)[self.kind]
        noise = self.learning.noise if random is not None else 0.0

        def cell(pairs: Tensor) -> Tensor:
            made: Tensor = self.cell(pairs)
            return made + noise * torch.randn(made.shape, generator=random, dtype=made.dtype) if noise else made

        tops = soft_tops(cell, leaves[words], action[words], torch.from_numpy(inside).to(leaves), self.settings.depth)
        tops = tops.view(1, rows, parts, -1)
        logits = self.words.logits(tops, leaves)
        asked = self._asked(batch)
        return Output(logits[0], loss=self._loss(tops, logits, asked, leaves)[0], asked=asked)

    # -- losses -----------------------------------------------------------------------------------------------------

    def _asked(self, batch: PartsBatch) -> Tensor:
        """The answers, -1 for questions that are not asked, [batch, parts]."""
        if not self.learning.questions:
            return batch.targets
        return torch.where(torch.arange(batch.targets.shape[1]) < self.learning.questions, batch.targets, -1)

    def _loss(self, tops: Tensor, logits: Tensor, targets: Tensor, leaves: Tensor) -> tuple[Tensor, Tensor]:
        """The loss of the cell, to which the better machines add more, and the reward, [machines, batch]."""
        asked, wanted = targets >= 0, targets.clamp(min=0)
        places = wanted.expand(logits.shape[:-1])[..., None]
        log_p = logits.log_softmax(-1).gather(-1, places)[..., 0] * asked  # [machines, batch, parts]
        each = -log_p
        if self.settings.tied and self.settings.pull:
            away = tops - self.words.answers(leaves).detach()[wanted]
            each = each + self.settings.pull * away.square().mean(-1) * asked
        weight = log_p.detach().sum(2, keepdim=True).softmax(0)
        reward = (log_p.detach().clamp(min=WORST)).sum(2)
        return (weight * each).sum() / asked.sum().clamp(min=1), reward

    def _policy_loss(self, batch: PartsBatch, tables: Tables, reward: Tensor) -> Tensor:
        """Every machine that did better than the others with the same text makes its tables likelier."""
        machines, rows = reward.shape
        advantage = (reward - reward.mean(0)) * machines / (machines - 1)
        advantage = (advantage / advantage.std().clamp(min=1)).flatten()
        example = torch.from_numpy(np.repeat(np.arange(rows), np.diff(batch.start[:: batch.targets.shape[1]])))
        words = torch.from_numpy(batch.flat)

        def occurs(choices: int, which: Tensor) -> Tensor:  # [machines * batch, choices]: only these had an effect
            here = torch.zeros(rows, choices)
            here[example, which] = 1.0
            return here.repeat(machines, 1)

        kinds = torch.arange(len(self.action))
        taken = torch.from_numpy(tables.action[:, self.first_word]).long()  # [machines * batch, kinds]
        log_p = ((SHARP * self.action).log_softmax(1)[kinds, taken] * occurs(len(kinds), self.kind[words])).sum(1)
        quotes = torch.from_numpy(tables.quotes).bool()
        either = nn.functional.logsigmoid(torch.where(quotes, SHARP * self.quoting, -SHARP * self.quoting))
        log_p = log_p + (either * occurs(len(self.quoting), words)).sum(1)
        log_p = log_p + (SHARP * self.order).log_softmax(0)[torch.from_numpy(tables.order)]
        return -self.learning.policy * (advantage * log_p).mean()

"""Shift-reduce: a parser and a cell that learn each other's part, without gold trees, in minutes on one core.

A stack holds vectors. At each step the policy looks at the two topmost ones (l, r) and reduces them to one, or shifts
the next word:

    e_t = LN(E[t]),    parent = GRC(l, r)                            (`layers.grc`)
    s = v . gelu(A [l; r] + a) + b,   z = 4 tanh(s / 4),   P(reduce) = sigmoid(z)
    logit of answer y = (tau / D) <root, e_y>                        y is tied to the word y (`layers.tied_words`)

So a closed list of value 7 is to become the word 7, which a squared distance (`pull`) also asks for. Answers that are
no word of the task have a vector of their own. The policy never passes a gradient to the vectors that it reads; z is
bounded, so it can always still change its mind.

The parser learns from the reward r = max(log p(y), -4) of K trees a sentence, each compared with the mean of the
others, and from a weak pull to a prior P(reduce). It is trained in stages (`stages`), since cell and parser cannot
begin together: 1. the cell alone on flat sentences of 4 to 6 words, composed from left to right; 2. the parser alone;
3. both on a few more words, with the best tree and a sampled one; 4. both on the parser's own trees.

What the parser gets wrong is an open list whose value so far is known, since its vector is like that of a closed list.
Nothing in stage 1 parts them, and no reward can where the cell is frozen. So stage 1 also says that a beginning of a
sentence is no answer (`apart`): its vector is to have at least the squared distance 1 to each of them.

Three settings let it go on in lists that are longer than any it was shown. `noise` is added to every node in training,
so that the cell learns to undo small errors; the policy sees the vectors without it. `counters` are numbers that add up
along a list (`layers.grc`); the policy sees them squashed, as the cell does, or else an open list of which only the
counters tell looks closed. `blur` is added to what the policy sees while it learns its own likelier steps, which are
those without it: so it decides the same of vectors that are a little off.

What is given besides sentences and answers: left to right in stage 1, which is the right order for flat lists; that a
beginning of a sentence is no answer there; the tie of answers to words; and a curriculum over lengths. Nothing says
what a bracket is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from pomona.base.arrays import Bytes, Floats, Ints
from pomona.base.errors import SpecError
from pomona.models.inputs.sentences import Batch
from pomona.models.layers.grc import GRC, Tape
from pomona.models.layers.stack_parser import Stacks
from pomona.models.layers.tied_words import Words
from pomona.models.model import MODELS, Model, Output, Shape
from pomona.models.stages import Stage

BOUND = 4.0  # of the policy's logit
WORST = -4.0  # the least reward of a tree
FIRST_BIAS = 0.5  # of the policy, which begins with P(reduce) = 0.62


@dataclass(frozen=True)
class Learning:
    """What a stage may tell the model: which trees it composes, and how the policy learns from them."""

    trees: Literal["policy", "left", "random"] = "policy"  # whose trees: the policy's, left to right, or random ones
    sampled: int = 1  # trees that are sampled from the policy for each sentence
    greedy: bool = True  # one more tree, in which every step is the likelier one
    policy: float = 0.3  # weight of the policy's reward
    prior: float = 0.75  # P(reduce) to which the policy is pulled ...
    prior_weight: float = 0.002  # ... with this weight
    own: float = 0.0  # weight of the cross entropy of the policy with its own likelier steps
    noise: float = 0.0  # standard deviation of what is added to every node: the cell learns to undo small errors
    blur: float = 0.0  # own: standard deviation of what is added to the vectors that the policy sees as it learns
    apart: float = 0.0  # tied: weight of the nearness of beginnings of a sentence to any answer

    def __post_init__(self) -> None:
        if self.trees not in ("policy", "left", "random"):
            raise SpecError(f"trees = {self.trees!r}: must be policy, left or random")
        if self.sampled < 0 or self.sampled + self.greedy < 1:
            raise SpecError(f"sampled = {self.sampled}, greedy = {self.greedy}: a sentence needs at least one tree")
        if not 0 < self.prior < 1:
            raise SpecError(f"prior = {self.prior}: a probability above 0 and below 1")
        for name in ("policy", "prior_weight", "own", "noise", "blur", "apart"):
            if not 0 <= getattr(self, name) < float("inf"):
                raise SpecError(f"{name} = {getattr(self, name)}: must be 0 or more")


@MODELS.add("shift_reduce")
@dataclass(frozen=True)
class ShiftReduceModel(Model):
    """A gated cell over trees of a shift-reduce policy that learns from reward; solves ListOps without gold trees."""

    gpu = False
    answer_positions = 1 << 17  # nothing is padded, and more sentences take no more rounds
    stage_settings = Learning

    width: int = 64  # of the vectors
    tied: bool = True  # an answer that is a word has the word's vector; False: a linear layer answers
    pull: float = 0.1  # tied: weight of the squared distance of the root to the vector of the answer
    counters: int = 0  # numbers of a vector that add up along a list without bound; see layers.grc

    def __post_init__(self) -> None:
        if self.counters < 0:
            raise SpecError(f"counters = {self.counters}: must be 0 or more")

    def stages(self) -> tuple[Stage, ...]:
        return (
            Stage(
                "flat", shortest=4, longest=6, growing=True, steps=4_000, epochs=100, batch=64, rate=3e-3, warmup=100,
                weight_decay=0.01, clip=1.0, frozen=("policy",), settings={"trees": "left", "apart": 1.0},
            ),
            Stage(
                "parser", shortest=7, longest=12, steps=400, batch=128, rate=2e-3, clip=1.0, frozen=("words", "cell"),
                settings={"sampled": 8, "greedy": False, "policy": 1.0, "prior": 0.5, "prior_weight": 0.02},
            ),
            Stage("both to 12", longest=12, steps=400, batch=128, rate=2e-3, weight_decay=0.01, clip=1.0),
            Stage("both to 20", longest=20, steps=400, batch=128, rate=2e-3, weight_decay=0.01, clip=1.0),
            Stage(
                "own trees", longest=50, steps=4_000, look=400, batch=128, rate=2e-3, schedule="linear",
                weight_decay=0.01, clip=1.0,
                settings={"sampled": 0, "policy": 0.0, "prior_weight": 0.0, "own": 0.1},
            ),
        )  # fmt: skip

    def build(self, shape: Shape) -> nn.Module:
        return ShiftReduceModule(self, shape)


class ShiftReduceModule(nn.Module):
    def __init__(self, settings: ShiftReduceModel, shape: Shape) -> None:
        super().__init__()
        width = settings.width
        self.settings, self.learning = settings, Learning()
        self.words = Words(settings, shape)
        self.cell = GRC(width, settings.counters)
        self.policy = nn.Linear(2 * self.cell.size, width)
        self.policy_out = nn.Linear(width, 1)
        nn.init.constant_(self.policy_out.bias, FIRST_BIAS)

    def begin_stage(self, learning: Learning) -> None:
        self.learning = learning

    def forward(self, batch: Batch, random: torch.Generator | None = None) -> Output:
        leaves = self.words()
        if not self.training:
            with torch.no_grad():
                stacks, tape = self.parse(batch, np.arange(len(batch)), None, leaves, keep=False)
                vectors = tape.vectors[:, : self.settings.width]  # without counters
                logits = self.words.logits(vectors[torch.from_numpy(stacks.root)], leaves)
            return Output(logits, batch.trees(stacks.steps), vectors[torch.from_numpy(stacks.node_at)])
        learning = self.learning
        if learning.trees != "policy" and random is not None:
            return self._given(batch, self._steps(batch, random), leaves, random)
        sampled = 0 if random is None else learning.sampled
        trees = sampled + (learning.greedy or not sampled)  # K
        sentences = np.tile(np.arange(len(batch)), trees)  # tree k of sentence b is k * sentences + b
        draws = np.full((trees, 2 * len(batch.flat) - len(batch)), -1.0)  # below 0: greedy
        if sampled:
            draws[trees - sampled :] = torch.rand(sampled, draws.shape[1], generator=random, dtype=torch.double).numpy()
        stacks, tape = self.parse(batch, sentences, draws.ravel(), leaves, keep=True, random=random)
        nodes = tape.nodes(leaves, stacks.height)
        roots = nodes[torch.from_numpy(stacks.root)]
        logits = self.words.logits(roots, leaves).view(trees, len(batch), -1)
        loss, reward = self._loss(roots, logits, batch.targets, leaves)
        if learning.apart and self.settings.tied:
            loss = loss + learning.apart * self._nearness(nodes, stacks.root, stacks.nodes[:, 0], leaves)
        return Output(logits[0], loss=loss, penalty=self._policy_loss(stacks, tape, reward, random))

    # -- trees ------------------------------------------------------------------------------------------------------

    @torch.no_grad()
    def parse(
        self, batch: Batch, sentences: npt.NDArray[np.int64], draws: npt.NDArray[np.float64] | None, leaves: Tensor,
        *, keep: bool, random: torch.Generator | None = None,
    ) -> tuple[Stacks, Tape]:  # fmt: skip
        """Build a tree for each of these sentences of the batch, with random draws; without them, the greedy one."""
        stacks = Stacks(batch.flat, batch.start, sentences, len(leaves))
        tape = Tape(self.cell, leaves, stacks.most, keep=keep, noise=self._noise(stacks.most, leaves, random))
        if draws is None:
            draws = np.full(len(stacks.steps), -1.0)
        while (asked := stacks.advance(draws)) is not None:
            nodes, pairs = asked
            if len(nodes):
                tape.add(nodes)
            if len(pairs):
                stacks.answer(self.score(tape.pairs(torch.from_numpy(pairs), quiet=True)).numpy())
        return stacks, tape

    def score(self, pairs: Tensor, blur: Tensor | float = 0.0) -> Tensor:
        """The logit of P(reduce) of pairs of vectors, [pairs, 2 * size]; blur is added to the vectors that it sees, not
        to their counters, which it sees squashed."""
        both, width = pairs.view(len(pairs), 2, -1), self.settings.width
        seen = both[:, :, :width].flatten(1) + blur
        if self.settings.counters:
            seen = torch.cat([seen, torch.tanh(both[:, :, width:]).flatten(1)], 1)
        s = self.policy_out(nn.functional.gelu(self.policy(seen)))[:, 0]
        return BOUND * torch.tanh(s / BOUND)

    def _steps(self, batch: Batch, random: torch.Generator) -> Bytes:
        """The steps of trees that branch to the left, or of random ones (a fair coin at every choice)."""
        if self.learning.trees == "left":
            draws = np.zeros(2 * len(batch.flat) - len(batch))
        else:
            draws = torch.rand(2 * len(batch.flat) - len(batch), generator=random, dtype=torch.double).numpy()
        stacks = Stacks(batch.flat, batch.start, np.arange(len(batch)), len(self.words.leaf))
        while (asked := stacks.advance(draws)) is not None:
            stacks.answer(np.zeros(len(asked[1])))
        return stacks.steps

    def _noise(self, nodes: int, leaves: Tensor, random: torch.Generator | None) -> Tensor | None:
        """What this stage adds to so many nodes."""
        if random is None or not self.learning.noise:
            return None
        return self.learning.noise * torch.randn(nodes, self.settings.width, generator=random).to(leaves)

    def _given(self, batch: Batch, steps: Bytes, leaves: Tensor, random: torch.Generator) -> Output:
        """The loss of trees that are not the policy's; it learns nothing."""
        schedule = batch.schedule_of(steps)
        noise = self._noise(len(schedule), leaves, random)
        tape = Tape.of_schedule(self.cell, leaves, schedule, keep=True, noise=noise)
        nodes = tape.nodes(leaves, np.repeat(np.arange(len(schedule.at) - 1), np.diff(schedule.at)))
        roots = nodes[torch.from_numpy(schedule.root)]
        logits = self.words.logits(roots, leaves)
        loss, _ = self._loss(roots, logits[None], batch.targets, leaves)
        if self.learning.apart and self.settings.tied:
            loss = loss + self.learning.apart * self._nearness(nodes, schedule.root, schedule.left, leaves)
        return Output(logits, loss=loss)

    # -- losses -----------------------------------------------------------------------------------------------------

    def _loss(self, roots: Tensor, logits: Tensor, targets: Tensor, leaves: Tensor) -> tuple[Tensor, Tensor]:
        """The loss of the cell, to which the better trees of a sentence add more, and the reward, [trees, batch]."""
        trees, rows, _ = logits.shape
        asked = targets >= 0
        wanted = targets.clamp(min=0)
        log_p = logits.log_softmax(2).gather(2, wanted.expand(trees, rows)[:, :, None])[:, :, 0]
        each = -log_p
        if self.settings.tied and self.settings.pull:
            away = roots.view(trees, rows, -1) - self.words.answers(leaves).detach()[wanted]
            each = each + self.settings.pull * away.square().mean(2)
        weight = log_p.detach().softmax(0) * asked
        return (weight * each).sum() / asked.sum().clamp(min=1), log_p.detach().clamp(min=WORST) * asked

    def _nearness(self, nodes: Tensor, roots: Ints, left: Ints, leaves: Tensor) -> Tensor:
        """How near the beginnings of the sentences are to answers: the nodes on the left side of each tree, but for its
        root, each with max(0, 1 - squared distance to the nearest answer)."""
        found: list[Ints] = [np.empty(0, np.int64)]
        at: Ints = np.unique(roots)
        while len(at := at[at >= len(leaves)]):
            at = np.unique(left[at - len(leaves)])
            found.append(at[at >= len(leaves)])
        beginnings = nodes[torch.from_numpy(np.unique(np.concatenate(found)))]
        away = (beginnings[:, None] - self.words.answers(leaves).detach()).square().mean(2)
        return (1 - away.amin(1)).clamp(min=0).sum() / max(1, len(beginnings))

    def _policy_loss(
        self, stacks: Stacks, tape: Tape, reward: Tensor, random: torch.Generator | None
    ) -> Tensor | None:
        """The loss of the policy: its terms are sums over the choices, gathered for each distinct pair."""
        learning, (trees, rows) = self.learning, reward.shape
        pair, action, tree = stacks.choices.T
        if not len(pair):
            return None
        count = len(stacks.pairs)
        number = np.bincount(pair, minlength=count)
        used = np.flatnonzero(number)
        pairs = tape.pairs(torch.from_numpy(stacks.pairs[used]), quiet=True)
        z = self.score(pairs)
        log_reduce, log_shift = nn.functional.logsigmoid(z), nn.functional.logsigmoid(-z)
        loss = z.new_zeros(())

        def gathered(values: Ints | Floats) -> Tensor:
            return torch.from_numpy(values[used]).to(z)

        if learning.policy and trees > 1:
            advantage = (reward - reward.mean(0)) * trees / (trees - 1)
            advantage = (advantage / advantage.std().clamp(min=1)).double().numpy().ravel()[tree]
            for_reduce = gathered(np.bincount(pair, advantage * action, count))
            for_shift = gathered(np.bincount(pair, advantage * (1 - action), count))
            loss = loss - learning.policy * (for_reduce * log_reduce + for_shift * log_shift).sum() / (trees * rows)
        if learning.prior_weight:
            p = z.sigmoid()
            to_prior = p * (log_reduce - np.log(learning.prior)) + (1 - p) * (log_shift - np.log1p(-learning.prior))
            loss = loss + learning.prior_weight * (gathered(number.astype(float)) * to_prior).sum() / (trees * rows)
        if learning.own:
            blurred = z
            if learning.blur and random is not None:
                off = torch.randn(len(pairs), 2 * self.settings.width, generator=random).to(pairs)
                blurred = self.score(pairs, learning.blur * off)
            likelier = nn.functional.logsigmoid(torch.where(z.detach() > 0, blurred, -blurred))
            loss = loss - learning.own * (gathered(number.astype(float)) * likelier).sum() / len(pair)
        return loss

"""How a model of sequences answers: with a head for each answer, with one token for all of them, or with a token each.

    targets = Targets("pair", answers=2, classes=11)
    targets.gold(batch.targets)                  [batch, length]: "6,2" <eos>, as in the ORCHARD paper's code
    hypotheses, steps = greedy(decoder, rows, targets.length)
    targets.scores(hypotheses, steps)            [batch, answers, classes]; the last class is MALFORMED

A decoder writes tokens until `<eos>`. What it writes may be no answer (`<eos>` too early or too late, or `<unk>`). All
answers of such a hypothesis are MALFORMED; it never raises an error. The size of the dictionary is rounded up to a
multiple of eight, as in fairseq; an entry without a word is malformed as well.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

import torch
from torch import Tensor, nn

from pomona.base.errors import RunError, SpecError
from pomona.models.inputs.sequences import BOS, EOS, PAD, SPECIAL, SequenceBatch
from pomona.models.layers.attention import at
from pomona.models.model import Output

Kind = Literal["heads", "pair", "tokens"]
NEVER = -100.0  # the score of an answer that a hypothesis does not give
FIRST = len(SPECIAL)


class Decoder(Protocol):
    """Writes answers to a batch, token after token; `state` is a tuple of tensors with a row for each hypothesis."""

    def begin(self) -> tuple[Tensor, ...]: ...

    def step(self, token: Tensor, state: tuple[Tensor, ...]) -> tuple[Tensor, tuple[Tensor, ...]]:
        """The logits of the next token, [rows, dictionary], and the state after it."""

    def taught(self, gold: Tensor) -> Tensor:
        """The logits [batch, length, dictionary] if the right tokens are given; see `step_by_step`."""


def rounded(words: int, multiple: int = 8) -> int:
    return -(-words // multiple) * multiple


@dataclass(frozen=True)
class Targets:
    """Answers as tokens of a target dictionary; `classes` is the number of outcomes, MALFORMED included."""

    kind: Kind
    answers: int
    classes: int

    def __post_init__(self) -> None:
        if self.kind == "pair" and (self.classes - 1) ** self.answers > 20_000:
            raise SpecError(
                f"target = 'pair' with {self.answers} answers of {self.classes - 1} outcomes needs "
                f"{(self.classes - 1) ** self.answers:,} words; choose 'tokens' or 'heads'"
            )

    @property
    def digits(self) -> int:
        """The number of outcomes without MALFORMED."""
        return self.classes - 1

    @property
    def dictionary(self) -> int:
        return rounded(FIRST + (self.digits**self.answers if self.kind == "pair" else self.digits))

    @property
    def length(self) -> int:
        """The number of tokens of an answer, `<eos>` included."""
        return 2 if self.kind == "pair" else self.answers + 1

    def gold(self, targets: Tensor) -> Tensor:
        """[batch, length] from [batch, answers]; -1 where an answer is unknown."""
        if self.kind == "pair":
            number = torch.zeros_like(targets[:, 0])
            for column in targets.unbind(1):
                number = number * self.digits + column
            words = (FIRST + number)[:, None]
            words = words.masked_fill((targets < 0).any(1, keepdim=True), -1)
        else:
            words = torch.where(targets < 0, -1, FIRST + targets)
        return torch.cat([words, torch.full_like(words[:, :1], EOS)], 1)

    def loss(self, logits: Tensor, targets: Tensor) -> Tensor:
        """The mean cross entropy over the tokens; logits are [batch, length, dictionary]."""
        return nn.functional.cross_entropy(logits.flatten(0, 1), self.gold(targets).flatten(), ignore_index=-1)

    def read(self, hypotheses: Tensor) -> Tensor:
        """[batch, answers] from [batch, length]: positions among the outcomes, MALFORMED the last of them."""
        words, last = hypotheses[:, :-1] - FIRST, hypotheses[:, -1]
        top = self.digits**self.answers if self.kind == "pair" else self.digits
        bad = (last != EOS) | ((words < 0) | (words >= top)).any(1)
        if self.kind == "pair":
            powers = range(self.answers - 1, -1, -1)
            words = torch.stack([words[:, 0] // self.digits**power % self.digits for power in powers], 1)
        return torch.where(bad[:, None], self.digits, words)

    def scores(self, hypotheses: Tensor, steps: Tensor | None = None) -> Tensor:
        """Scores [batch, answers, classes], highest for the answers of the hypothesis.

        With `steps`, the logits of a greedy hypothesis, an outcome has the score of the best token that stands for it.
        Without them, all outcomes but that of the hypothesis have the score NEVER.
        """
        answers = self.read(hypotheses)
        if steps is None:
            shape = (*answers.shape, self.classes)
            return torch.full(shape, NEVER, device=answers.device).scatter(2, answers[:, :, None], 0.0)
        words = steps[:, :-1, FIRST:]
        if self.kind == "pair":
            grid = words[:, 0, : self.digits**self.answers].reshape(-1, *(self.digits,) * self.answers)
            numbers = range(self.answers)
            others = [tuple(1 + other for other in numbers if other != number) for number in numbers]
            best = torch.stack([grid.amax(rest) if rest else grid for rest in others], 1)
        else:
            best = words[:, :, : self.digits]
        scores = torch.cat([best, best.amin(2, keepdim=True) - 1], 2)
        malformed = torch.full_like(scores, NEVER)
        malformed[:, :, -1] = 0
        return torch.where((answers == self.digits)[:, :1, None], malformed, scores)


def as_answers(heads: Tensor) -> Tensor:
    """The logits of heads, [batch, answers, digits], followed by MALFORMED, which heads never answer."""
    return torch.cat([heads, torch.full_like(heads[:, :, :1], NEVER)], 2)


class TreeHeads(nn.ModuleList):
    """Heads over the vectors of a sequence: that at the first token of each tree, its root operator, is classified.

    With `node_weight`, the first token of every list (COPY included) is classified in training as well, by the head of
    its tree; the mean of these cross entropies has that weight in the loss. Only the roots are answers.
    """

    def __init__(self, width: int, answers: int, digits: int, node_weight: float = 0.0) -> None:
        super().__init__(nn.Linear(width, digits) for _ in range(answers))
        self.node_weight = node_weight

    def forward(self, states: Tensor, batch: SequenceBatch) -> Output:
        """The answers from states [batch, length, width]."""
        output = self.of_roots(at(states, batch.heads))
        if not self.asks_lists:
            return output
        if not len(batch.lists):
            raise RunError(
                "node_weight needs one answer for each tree and texts whose brackets are the nodes of their trees, and "
                "these are not; leave it at 0"
            )
        row, token = batch.lists.unbind(1)
        tree = (token[:, None] >= batch.heads[row]).sum(1) - 1
        values = torch.stack([head(states[row, token]) for head in self], 1)  # [lists, answers, digits]
        values = values.gather(1, tree[:, None, None].expand(-1, 1, values.shape[2]))[:, 0]
        lists = nn.functional.cross_entropy(values, batch.values, ignore_index=-1)
        return Output(output.logits, penalty=self.node_weight * lists)

    @property
    def asks_lists(self) -> bool:
        """Whether all lists are asked for now, and not only the roots."""
        return self.training and self.node_weight > 0

    def of_roots(self, roots: Tensor) -> Output:
        """The answers from the vectors at the roots alone, [batch, answers, width]."""
        return Output(
            as_answers(torch.stack([head(root) for head, root in zip(self, roots.unbind(1), strict=True)], 1))
        )


def step_by_step(decoder: Decoder, gold: Tensor) -> Tensor:
    """The logits [batch, length, dictionary] if the right tokens are given one after the other."""
    token, state, steps = torch.full_like(gold[:, 0], BOS), decoder.begin(), []
    for position in range(gold.shape[1]):
        logits, state = decoder.step(token, state)
        steps.append(logits)
        token = gold[:, position].clamp(min=0)
    return torch.stack(steps, 1)


def greedy(decoder: Decoder, rows: int, length: int) -> tuple[Tensor, Tensor]:
    """The best token at each step, [batch, length] with PAD behind `<eos>`, and the logits of the steps."""
    state = decoder.begin()
    token = torch.full((rows,), BOS, device=state[0].device)
    written: list[Tensor] = []
    steps: list[Tensor] = []
    for _ in range(length):
        logits, state = decoder.step(token, state)
        over = (token == EOS) | (token == PAD) if written else torch.zeros_like(token, dtype=torch.bool)
        token = logits[:, 1:].argmax(1) + 1  # never PAD
        token = token.masked_fill(over, PAD)
        written.append(token)
        steps.append(logits)
    return torch.stack(written, 1), torch.stack(steps, 1)


def beam_search(decoder: Decoder, rows: int, length: int, beams: int) -> Tensor:
    """The hypothesis with the highest mean log probability of its tokens, [batch, length], with `beams` at a time.

    As in fairseq, twice as many candidates are considered at each step. Those among the first `beams` that end are
    finished, and the best of the others are continued. A hypothesis without an end counts only where none has ended.
    """
    state = tuple(part.repeat_interleave(beams, 0) for part in decoder.begin())
    device = state[0].device
    each = torch.arange(rows, device=device)
    token = torch.full((rows * beams,), BOS, device=device)
    alive = torch.full((rows, beams), -torch.inf, device=device, dtype=torch.float64)
    alive[:, 0] = 0
    written = torch.full((rows, beams, length), PAD, device=device)
    best, best_score = written[:, 0].clone(), torch.full_like(alive[:, 0], -torch.inf)
    finished = torch.zeros(rows, dtype=torch.int64, device=device)
    for position in range(length):
        logits, state = decoder.step(token, state)
        logits = torch.cat([torch.full_like(logits[:, :1], -torch.inf), logits[:, 1:]], 1)  # never PAD
        total = alive[:, :, None] + logits.log_softmax(1).view(rows, beams, -1)
        score, candidates = total.flatten(1).topk(min(2 * beams, total[0].numel()), 1)
        source, word = candidates // total.shape[2], candidates % total.shape[2]
        ends = word == EOS
        for rank in range(beams):
            mean = score[:, rank] / (position + 1)
            new = ends[:, rank] & (finished < beams)
            better = new & (mean > best_score)
            ended = written[each, source[:, rank]].clone()
            ended[:, position] = EOS
            best = torch.where(better[:, None], ended, best)
            best_score = torch.where(better, mean, best_score)
            finished += new
        order = (ends.long() * 2 * beams + torch.arange(score.shape[1], device=device)).argsort(1)[:, :beams]
        score, source, word = score.gather(1, order), source.gather(1, order), word.gather(1, order)
        alive = score.masked_fill(word == EOS, -torch.inf)
        written = written[each[:, None], source]
        written[:, :, position] = word
        chosen = (each[:, None] * beams + source).flatten()
        state, token = tuple(part[chosen] for part in state), word.flatten()
    return torch.where((finished > 0)[:, None], best, written[:, 0])


def written_output(decoder: Decoder, targets: Targets, wanted: Tensor, *, training: bool, beams: int) -> Output:
    """The output of a module that writes its answers: in training given the right tokens, else from what it writes."""
    if training:
        gold = targets.gold(wanted)
        steps = decoder.taught(gold)
        greedily = torch.cat([steps[:, :-1].argmax(2), torch.full_like(gold[:, :1], EOS)], 1)
        return Output(targets.scores(greedily, steps), loss=targets.loss(steps, wanted))
    if beams == 1:
        return Output(targets.scores(*greedy(decoder, len(wanted), targets.length)))
    return Output(targets.scores(beam_search(decoder, len(wanted), targets.length, beams)))

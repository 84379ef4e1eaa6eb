"""The ORCHARD paper's LSTM: an encoder, and a decoder with attention and input feeding (Luong et al. 2015).

    encoder    states s_1 .. s_n of an LSTM over the tokens, or of two that read from either end
    decoder    h_t, c_t = LSTM([word_t; a_{t-1}], h_{t-1}, c_{t-1}),  starting from the encoder's last h and c
               e_i = s_i . (W h_t),  a_t = tanh(V [sum_i softmax(e)_i s_i; h_t]),  logits = U a_t + b

The paper says "bi-directional" and counts 6.2M parameters; with width 512 that is the LSTM of one direction (6,189,160
with dictionaries of 88 and 104 words); two directions have 9.9M. Both can be chosen. Each gate has two biases, as in
fairseq and cuDNN; one would be enough, but then the count would not be the paper's. With `target = "heads"` there is no
decoder: each answer is classified from one read of attention, whose query is computed from the encoder's last states.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, nn

from pomona.base.arrays import Ints
from pomona.models.inputs.sequences import SequenceBatch
from pomona.models.layers.decoder import Kind, Targets, as_answers, rounded, step_by_step, written_output
from pomona.models.layers.dropout import dropped
from pomona.models.layers.flat_attention import read_flat
from pomona.models.layers.lstm import Reading, states_of
from pomona.models.model import MODELS, Output, Shape
from pomona.models.sequence_model import SequenceModel

FIRST_WEIGHTS = 0.1  # uniform between -0.1 and 0.1 as in fairseq; wider if the width is below 100


@MODELS.add("seq2seq_lstm")
@dataclass(frozen=True)
class Seq2SeqLSTMModel(SequenceModel):
    """LSTM encoder, attention, and a decoder or heads; width 512, one direction and `pair` in the ORCHARD paper."""

    width: int = 128  # of the vectors
    bidirectional: bool = True  # read from both ends
    target: Kind = "heads"  # how answers are given: by heads, as one token for all (pair), as a token each
    answers: int = 0  # of each example; 0: as many as the data ask for
    dropout: float = 0.0  # share of the units left out in training
    first_words: float = 1.0  # the first word vectors are uniform between minus and plus this; 0.1 in fairseq
    beam: int = 1  # hypotheses of a beam search; 1 is greedy

    def build(self, shape: Shape) -> nn.Module:
        return Seq2SeqLSTMModule(self, shape)


class Seq2SeqLSTMModule(nn.Module):
    def __init__(self, settings: Seq2SeqLSTMModel, shape: Shape) -> None:
        super().__init__()
        width, both = settings.width, settings.bidirectional
        self.settings, self.targets = settings, Targets(settings.target, settings.questions, shape.classes)
        self.word = nn.Parameter(torch.empty(rounded(shape.vocabulary), width))
        self.forth = Reader(width)
        self.back = Reader(width) if both else None
        memory = 2 * width if both else width
        if settings.target == "heads":
            self.heads: Heads | Writer = Heads(memory, settings.questions, self.targets.digits)
        else:
            self.heads = Writer(width, memory, self.targets.dictionary)
        bound = max(FIRST_WEIGHTS, 1 / math.sqrt(width))
        for weight in self.parameters():
            nn.init.uniform_(weight, -bound, bound)
        for words in (self.word, getattr(self.heads, "word", None)):
            if words is not None:
                nn.init.uniform_(words, -settings.first_words, settings.first_words)
        for reader in (self.forth, self.back):
            if reader is not None:  # open forget gates are what makes a short training work
                nn.init.constant_(reader.bias_in[width : 2 * width], 1)

    def forward(self, batch: SequenceBatch, random: torch.Generator | None = None) -> Output:
        states, h, c = self.encode(batch, random)
        if isinstance(self.heads, Heads):
            return Output(as_answers(self.heads(states, h, batch.start)))
        decoder = BatchDecoder(self.heads, batch.beside(states), h, c, batch.inside, self.settings.dropout, random)
        return written_output(decoder, self.targets, batch.targets, training=self.training, beams=self.settings.beam)

    def encode(self, batch: SequenceBatch, random: torch.Generator | None = None) -> tuple[Tensor, Tensor, Tensor]:
        """h of all tokens, [tokens, memory], and the last h and c of each direction, [batch, memory]."""
        share = self.settings.dropout
        ends = torch.from_numpy(batch.start[1:] - 1)
        states, c = self.forth(self.word, batch, share, random)  # [tokens, width], [batch, width]
        h = states[ends.to(states.device)]
        if self.back is not None:
            others, other = self.back(self.word, batch, share, random, reverse=True)
            first = torch.from_numpy(batch.start[:-1]).to(states.device)
            h, c = torch.cat([h, others[first]], 1), torch.cat([c, other], 1)
            states = torch.cat([states, others], 1)
        return dropped(states, share, random), h, c


class Reader(nn.Module):
    """An LSTM over words. What a word adds to the gates is a row of a table, unless dropout makes tokens differ."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.input, self.state = (
            nn.Parameter(torch.empty(4 * width, width)),
            nn.Parameter(torch.empty(4 * width, width)),
        )
        self.bias_in, self.bias_state = nn.Parameter(torch.empty(4 * width)), nn.Parameter(torch.empty(4 * width))

    def forward(
        self,
        word: Tensor,
        batch: SequenceBatch,
        share: float,
        random: torch.Generator | None,
        *,
        reverse: bool = False,
    ) -> tuple[Tensor, Tensor]:
        tokens = batch.flat
        if share and random is not None:
            word = dropped(word[torch.from_numpy(tokens).to(word.device)], share, random)
            tokens = torch.arange(len(tokens)).numpy()
        table = word @ self.input.t() + (self.bias_in + self.bias_state)
        return states_of(table, self.state, Reading(tokens, batch.start, reverse))


def attend(query: Tensor, states: Tensor, inside: Tensor) -> Tensor:
    """One read: [batch, memory] from queries [batch, memory] and states [batch, length, memory]."""
    score = (states @ query[:, :, None])[:, :, 0].masked_fill(~inside, -torch.inf)
    return (score.softmax(1)[:, None] @ states)[:, 0]


class Heads(nn.Module):
    """For each answer one read of attention, and a linear layer over it and the last states."""

    def __init__(self, memory: int, answers: int, digits: int) -> None:
        super().__init__()
        self.query = nn.ModuleList(nn.Linear(memory, memory) for _ in range(answers))
        self.head = nn.ModuleList(nn.Linear(2 * memory, digits) for _ in range(answers))

    def forward(self, states: Tensor, last: Tensor, start: Ints) -> Tensor:
        reads = read_flat(torch.stack([query(last) for query in self.query], 1), states, start).unbind(1)
        logits = [head(torch.cat([read, last], 1)) for head, read in zip(self.head, reads, strict=True)]
        return torch.stack(logits, 1)  # [batch, answers, digits]


class Writer(nn.Module):
    """The weights of the decoder, with two biases as well; a bridge brings h and c of two directions to its width."""

    def __init__(self, width: int, memory: int, dictionary: int) -> None:
        super().__init__()
        self.word = nn.Parameter(torch.empty(dictionary, width))
        self.cell = nn.LSTMCell(2 * width, width)
        self.bridge = nn.ModuleList(nn.Linear(memory, width) for _ in range(2)) if memory != width else None
        self.query = nn.Linear(width, memory, bias=False)
        self.mix = nn.Linear(memory + width, width, bias=False)
        self.out = nn.Linear(width, dictionary)


@dataclass(frozen=True, eq=False)
class BatchDecoder:
    """The decoder for one batch (a `pomona.models.layers.decoder.Decoder`)."""

    writer: Writer
    states: Tensor  # [batch, length, memory]
    h: Tensor  # [batch, memory]
    c: Tensor
    inside: Tensor
    share: float
    random: torch.Generator | None

    def begin(self) -> tuple[Tensor, ...]:
        h, c = self.h, self.c
        if self.writer.bridge is not None:
            h, c = (layer(end) for layer, end in zip(self.writer.bridge, (h, c), strict=True))
        return h, c, torch.zeros_like(h), self.states, self.inside

    def step(self, token: Tensor, state: tuple[Tensor, ...]) -> tuple[Tensor, tuple[Tensor, ...]]:
        writer, (h, c, fed, states, inside) = self.writer, state
        word = dropped(writer.word[token], self.share, self.random)
        h, c = writer.cell(torch.cat([word, fed], 1), (h, c))
        out = dropped(h, self.share, self.random)
        fed = writer.mix(torch.cat([attend(writer.query(out), states, inside), out], 1)).tanh()
        logits = cast(Tensor, writer.out(dropped(fed, self.share, self.random)))
        return logits, (h, c, fed, states, inside)

    def taught(self, gold: Tensor) -> Tensor:
        return step_by_step(self, gold)

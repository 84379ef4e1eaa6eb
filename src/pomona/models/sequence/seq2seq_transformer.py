"""The ORCHARD paper's Transformer: an encoder and a decoder of six layers each (Vaswani et al. 2017), as in fairseq.

It has ReLU, sinusoidal positions, words times the root of the width, and three tables of words that are not tied. With
post-norm and no last norm, as in fairseq, width 512 has 44,290,048 parameters with dictionaries of 88 and 104 words.
With `target = "heads"` there is no decoder: the vector at the first token of each tree, its root operator, is
classified.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, nn

from pomona.base.errors import SpecError
from pomona.models.inputs.sequences import BOS, SequenceBatch
from pomona.models.layers.attention import Norm, TransformerLayer, sinusoids
from pomona.models.layers.decoder import Kind, Targets, TreeHeads, rounded, written_output
from pomona.models.layers.dropout import dropped
from pomona.models.layers.flat_transformer import FlatBatch, flat_layer
from pomona.models.model import MODELS, Output, Shape
from pomona.models.sequence_model import SequenceModel


@MODELS.add("seq2seq_transformer")
@dataclass(frozen=True)
class Seq2SeqTransformerModel(SequenceModel):
    """Transformer encoder, and a decoder or heads; in the paper 6 layers of width 512, 2048 inside, 8 heads, `pair`."""

    width: int = 128  # of the vectors
    layers: int = 4  # of the encoder, and of the decoder if there is one
    inner: int = 256  # width of the hidden layer of the feed-forward network
    heads: int = 4  # of attention
    target: Kind = "heads"  # how answers are given: by heads, as one token for all (pair), as a token each
    answers: int = 0  # of each example; 0: as many as the data ask for
    dropout: float = 0.0  # share of the units left out in training
    norm: Norm = "pre"  # "post" in the paper, which needs larger models and longer training
    beam: int = 1  # hypotheses of a beam search; 1 is greedy
    node_weight: float = 0.0  # weight in the loss of the values of all lists, with `target = "heads"`

    def __post_init__(self) -> None:
        if self.node_weight < 0 or (self.node_weight and self.target != "heads"):
            raise SpecError(
                f"node_weight = {self.node_weight}: must be 0 or more, and above 0 only with target = 'heads'"
            )

    def build(self, shape: Shape) -> nn.Module:
        return Seq2SeqTransformerModule(self, shape)


class Words(nn.Module):
    """The vectors of words and positions, [batch, length, width], of tokens [batch, length]."""

    def __init__(self, words: int, width: int) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.randn(words, width) / math.sqrt(width))

    def forward(self, tokens: Tensor, share: float, random: torch.Generator | None) -> Tensor:
        x = nn.functional.embedding(tokens, self.table * math.sqrt(self.table.shape[1]))
        return dropped(x + sinusoids(tokens.shape[1], self.table.shape[1], x), share, random)


class Seq2SeqTransformerModule(nn.Module):
    def __init__(self, settings: Seq2SeqTransformerModel, shape: Shape) -> None:
        super().__init__()
        width, inner, heads, norm = settings.width, settings.inner, settings.heads, settings.norm
        self.settings, self.targets = settings, Targets(settings.target, settings.questions, shape.classes)
        self.words = Words(rounded(shape.vocabulary), width)
        self.encoder = nn.ModuleList(TransformerLayer(width, inner, heads, norm=norm) for _ in range(settings.layers))
        self.end = nn.LayerNorm(width) if norm == "pre" else None
        if settings.target == "heads":
            self.heads = TreeHeads(width, settings.questions, self.targets.digits, settings.node_weight)
        else:
            self.decoder = nn.ModuleList(
                TransformerLayer(width, inner, heads, memory=True, norm=norm) for _ in range(settings.layers)
            )
            self.target_words = Words(self.targets.dictionary, width)
            self.decoder_end = nn.LayerNorm(width) if norm == "pre" else None
            self.out = nn.Parameter(torch.randn(self.targets.dictionary, width) / math.sqrt(width))

    def forward(self, batch: SequenceBatch, random: torch.Generator | None = None) -> Output:
        if self.settings.target == "heads" and not self.heads.asks_lists:
            if self.can_be_flat(batch, random):
                return self.heads.of_roots(self.roots(batch))
            return self.heads.of_roots(self.encode(batch, random, batch.heads))
        states = self.encode(batch, random)
        if self.settings.target == "heads":
            return cast(Output, self.heads(states, batch))
        decoder = BatchDecoder(self, states, batch.inside, random)
        return written_output(decoder, self.targets, batch.targets, training=self.training, beams=self.settings.beam)

    def encode(
        self, batch: SequenceBatch, random: torch.Generator | None = None, asking: Tensor | None = None
    ) -> Tensor:
        """[batch, length, width]; with `asking`, [batch, positions], only the vectors at these positions."""
        share, mask = self.settings.dropout, batch.inside[:, None, None]
        x = self.words(batch.tokens, share, random)
        for number, layer in enumerate(self.encoder, 1):
            x = layer(x, mask, share, random, asking=asking if number == len(self.encoder) else None)
        return x if self.end is None else cast(Tensor, self.end(x))

    def can_be_flat(self, batch: SequenceBatch, random: torch.Generator | None) -> bool:
        """Whether the roots can be computed without padding: on the processor, pre-norm, nothing left out."""
        dropping = self.settings.dropout > 0 and random is not None
        here = batch.tokens.device.type == "cpu" and len(batch.rows) > 0
        return here and self.settings.norm == "pre" and not dropping

    def roots(self, batch: SequenceBatch) -> Tensor:
        """The vectors at the roots, [batch, answers, width], computed without padding."""
        flat, table = FlatBatch.of(batch), self.words.table
        x = nn.functional.embedding(flat.tokens, table * math.sqrt(table.shape[1]))
        x = x + sinusoids(batch.tokens.shape[1], table.shape[1], x)[flat.places]
        for number, layer in enumerate(self.encoder, 1):
            x = flat_layer(cast(TransformerLayer, layer), x, flat.roots if number == len(self.encoder) else flat.every)
        return cast(Tensor, cast(nn.LayerNorm, self.end)(x)).view(*batch.heads.shape, -1)

    def write(
        self, tokens: Tensor, memory: list[tuple[Tensor, Tensor]], mask: Tensor, random: torch.Generator | None
    ) -> Tensor:
        """The logits after each of the tokens, [batch, length, dictionary]; no token sees those that follow it."""
        share, length = self.settings.dropout, tokens.shape[1]
        x = self.target_words(tokens, share, random)
        past = torch.ones(length, length, dtype=torch.bool, device=x.device).tril()
        for layer, known in zip(self.decoder, memory, strict=True):
            x = layer(x, past, share, random, memory=known, memory_mask=mask)
        x = x if self.decoder_end is None else self.decoder_end(x)
        return cast(Tensor, x @ self.out.t())


@dataclass(frozen=True, eq=False)
class BatchDecoder:
    """The decoder for one batch (a `pomona.models.layers.decoder.Decoder`); its state is what it has written so far."""

    module: Seq2SeqTransformerModule
    states: Tensor
    inside: Tensor
    random: torch.Generator | None

    def begin(self) -> tuple[Tensor, ...]:
        layers = (cast(TransformerLayer, layer) for layer in self.module.decoder)
        known = [part for layer in layers if layer.to_memory for part in layer.to_memory.keys_and_values(self.states)]
        written = torch.zeros(len(self.states), 0, dtype=torch.int64, device=self.states.device)
        return self.inside[:, None, None], *known, written

    def step(self, token: Tensor, state: tuple[Tensor, ...]) -> tuple[Tensor, tuple[Tensor, ...]]:
        mask, *known, written = state
        written = torch.cat([written, token[:, None]], 1)
        memory = list(zip(known[::2], known[1::2], strict=True))
        logits = self.module.write(written, memory, mask, self.random)[:, -1]
        return logits, (mask, *known, written)

    def taught(self, gold: Tensor) -> Tensor:
        mask, *known, _ = self.begin()
        given = torch.cat([torch.full_like(gold[:, :1], BOS), gold[:, :-1].clamp(min=0)], 1)
        return self.module.write(given, list(zip(known[::2], known[1::2], strict=True)), mask, self.random)

"""The pictures of docs/learning_to_parse.md, made from a run of `shift_reduce`.

    pomona train shift_reduce --data listops/d20s --out runs/parser
    python docs/parser_pictures.py runs/parser

    parser_stages.svg    accuracy on dev after each stage, by seconds of one core
    parser_policy.svg    what the policy decides for each kind of pair; the numbers are printed as a table, too
    parser_tree.svg      its tree over a sentence of 900 to 1,000 tokens, compared with the gold one
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from pomona.base.plots import COLOURS, Drawing, number, percent
from pomona.data.task import generate
from pomona.evaluation.parse_f1 import parse_f1
from pomona.models.inputs.sentences import Batch, Sentences
from pomona.models.sentence.shift_reduce import ShiftReduceModule
from pomona.training.checkpoints import load
from pomona.training.predict import predict
from pomona.training.run import Run
from pomona.trees.binary import binarise
from pomona.trees.forest import Forest

PICTURES = Path(__file__).parent / "pictures"
KINDS = ("[OP", "open list", "digit", "closed list", "]")
SENTENCES = 500  # of dev, for the table of pairs


def stages(run: Run) -> Path:
    """Accuracy on dev at every look, by seconds of one core."""
    looks = [
        {"seconds": entry["core_seconds"], "dev": entry["dev"], "stage": entry["stage"]} for entry in run.curve
    ]  # fmt: skip
    names = list(dict.fromkeys(look["stage"] for look in looks))
    x, y = number("seconds", "seconds of one core"), percent("dev", "right on dev")
    colour = {"field": "stage", "type": "nominal", "title": "after stage", "scale": {"domain": names}}
    line = {"mark": {"type": "line", "color": "#8a8a8a"}, "encoding": {"x": x, "y": y}}
    points = {"mark": {"type": "point", "filled": True, "size": 80}, "encoding": {"x": x, "y": y, "color": colour}}
    return Drawing({"data": {"values": looks}, "layer": [line, points]}).save(PICTURES / "parser_stages.svg")


# -- the policy as a table of pairs ----------------------------------------------------------------------------------


def pairs_of(run: Run) -> list[dict[str, Any]]:
    """For each kind of pair: how often there was a choice, and the mean, the lowest and the highest P(reduce)."""
    module, vocabulary, outcomes, _ = load(run)
    assert isinstance(module, ShiftReduceModule)
    corpus = generate("listops/d20s", "dev", size=SENTENCES)
    batch = Batch.of(Sentences.of(corpus, vocabulary, outcomes), np.arange(len(corpus)))
    with torch.no_grad():
        leaves = module.eval().words()
        stacks, tape = module.parse(batch, np.arange(len(batch)), None, leaves, keep=False)
        p = module.score(tape.pairs(torch.from_numpy(stacks.pairs))).sigmoid().double().numpy()
    kind = [KINDS[0] if word[0] == "[" else word if word == "]" else "digit" for word in vocabulary]
    for _, right in stacks.nodes.tolist():
        kind.append("closed list" if kind[right] == "]" else "open list")
    found: dict[tuple[str, str], list[float]] = {}
    for pair in stacks.choices[:, 0]:
        below, top = stacks.pairs[pair]
        found.setdefault((kind[below], kind[top]), []).append(float(p[pair]))
    return [
        {"below": below, "top": top, "choices": len(values), "mean": float(np.mean(values)),
         "lowest": min(values), "highest": max(values)}
        for (below, top), values in sorted(found.items(), key=lambda item: [KINDS.index(part) for part in item[0]])
    ]  # fmt: skip


def policy(rows: Sequence[dict[str, Any]]) -> Path:
    """The table of pairs: a square for each, with its P(reduce)."""
    x = {"field": "top", "type": "nominal", "title": "on top", "sort": list(KINDS), "axis": {"labelAngle": 0}}
    y = {"field": "below", "type": "nominal", "title": "below", "sort": list(KINDS)}
    shade = {"field": "mean", "type": "quantitative", "title": "P(reduce)",
             "scale": {"domain": [0, 1], "range": [COLOURS[1], "#ffffff", COLOURS[0]]}}  # fmt: skip
    square = {"mark": "rect", "encoding": {"x": x, "y": y, "color": shade}}
    named = [{**row, "said": "reduce" if row["mean"] > 0.5 else "shift"} for row in rows]
    said = {"mark": {"type": "text"}, "encoding": {"x": x, "y": y, "text": {"field": "said"}}}
    spec = {"data": {"values": named}, "width": 430, "height": 110, "layer": [square, said]}
    return Drawing(spec).save(PICTURES / "parser_policy.svg")


def table(rows: Sequence[dict[str, Any]]) -> str:
    """The same as a table of the page."""
    lines = ["| below | on top | choices | P(reduce), mean | lowest | highest |", "|---|---|---:|---:|---:|---:|"]
    for row in sorted(rows, key=lambda row: -row["mean"]):
        below, top = (f"`{kind}`" if kind[-1] in "P]" else kind for kind in (row["below"], row["top"]))
        numbers = " | ".join(f"{row[name]:.3f}" for name in ("mean", "lowest", "highest"))
        lines.append(f"| {below} | {top} | {row['choices']:,} | {numbers} |")
    return "\n".join(lines)


# -- a long tree -----------------------------------------------------------------------------------------------------


def long_tree(run: Run) -> str:
    """Draw the tree over the first sentence of `length-900-1000`; a line about it."""
    corpus = generate("listops/length-900-1000", "test", size=1)[:1]
    predictions = predict(run, corpus)
    gold, chosen = binarise(corpus.forest), predictions.trees
    assert chosen is not None
    (PICTURES / "parser_tree.svg").write_text(comb(chosen, spans(gold)), encoding="utf-8")
    score = parse_f1(chosen, gold, resamples=1).value
    answer = predictions.outcomes[int(predictions.answers[0])]
    return f"{corpus.lengths[0]} tokens, F1 with gold {score:.2%}, truth {corpus[0].target[0]}, it says {answer}"


def spans(tree: Forest) -> list[tuple[int, int]]:
    """The first and the last token of every node of a binary tree, in post-order."""
    found: list[tuple[int, int]] = []
    stack: list[tuple[int, int]] = []
    token = 0
    for arity in tree.arity.tolist():
        if arity:
            (first, _), (_, last) = stack[-2:]
            stack[-2:] = [(first, last)]
        else:
            stack.append((token, token))
            token += 1
        found.append(stack[-1])
    return found


def comb(tree: Forest, gold: Sequence[tuple[int, int]]) -> str:
    """A binary tree as SVG: a leaf stands at its token, a node over the middle of its words, as high as the tree below
    it. Lines to nodes that the gold tree does not have are drawn in a second colour."""
    wide, high = 1.0, 6.0  # of a token and of a level
    known, mine = set(gold), spans(tree)
    level: list[int] = []
    below: list[int] = []  # the roots of finished subtrees
    lines: dict[bool, list[str]] = {True: [], False: []}

    def place(node: int) -> tuple[float, float]:
        return wide * (sum(mine[node]) / 2 + 0.5), high * level[node]

    for node, arity in enumerate(tree.arity.tolist()):
        children = below[len(below) - arity :]
        del below[len(below) - arity :]
        level.append(1 + max((level[child] for child in children), default=-1))
        below.append(node)
        for child in children:
            (x0, y0), (x1, y1) = place(child), place(node)
            lines[mine[node] in known].append(f"M{x0:.1f} {y0:.0f}V{y1:.0f}H{x1:.1f}")
    across, up = wide * (mine[-1][1] + 1), high * max(level)
    paths = "".join(
        f'<path d="{"".join(some)}" stroke="{colour}"/>'
        for some, colour in ((lines[True], COLOURS[0]), (lines[False], COLOURS[1]))
        if some
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="-4 -4 {across + 8:.0f} {up + 8:.0f}" width="{across:.0f}">'
        f"<title>The tree of shift_reduce over {mine[-1][1] + 1} tokens</title>"
        f'<g transform="matrix(1 0 0 -1 0 {up:.0f})" fill="none" stroke-width="0.5">{paths}</g></svg>\n'
    )


if __name__ == "__main__":
    given = Run.read(sys.argv[1])
    kinds = pairs_of(given)
    stages(given)
    policy(kinds)
    print(table(kinds), long_tree(given), sep="\n\n")

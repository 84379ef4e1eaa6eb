"""Small real files of every kind that Pomona reads, made by Pomona itself.

home = make(Path("/tmp/material"))                # takes a few seconds, most of them for training one tiny run

corpora/     the same few examples in every format        run/       a trained, evaluated run that builds trees
answers/     answers of a model outside Pomona            paused/    the same run before its end
vectors/     representations, derivations, items          reports/   certificates, fits, evaluations, results
words/       compounds, frequencies, word2vec, a text     games/, dynamics/    experiments of the TRE paper
digits/      MNIST's files, with twenty digits           sharded/, interrupted/    a split in shards, whole and half
"""

from __future__ import annotations

import gzip
import json
import shutil
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from pomona.base import files
from pomona.data import formats
from pomona.data.answers import Answers, asked, write_answers
from pomona.data.corpus import Corpus
from pomona.data.shards.generation import generate_shards
from pomona.data.task import generate
from pomona.representations.tre.bundles import write_bundle
from pomona.tasks.propositional import every_sentence
from pomona.training.recipe import Recipe
from pomona.trees import brackets
from pomona.trees.binary import binarise

SIZES = {"train": 40, "dev": 8, "test": 12}
RECIPE = Recipe("st_gumbel", {"width": 6}, data_settings=SIZES, longest=30, epochs=2, batch=16, dev_rows=8)
SHARDED: dict[str, Any] = {"shards": 3, "split": "dev,train", "rows": 60, **SIZES}
GAME = {"hidden": 4, "batch": 4, "steps": 2}


def test_corpus() -> Corpus:
    return generate("listops/d20s", "test", 0, **SIZES)


def make(home: Path, *, experiments: bool = True) -> Path:
    """All files, in a new folder; those of the TRE paper's experiments take half of the time."""
    home.mkdir(parents=True, exist_ok=True)
    _corpora(home / "corpora")
    _answers(home / "answers")
    _vectors(home / "vectors")
    _words(home / "words")
    _digits(home / "digits")
    make_reports(home)
    if experiments:
        _experiments(home)
    return home


def make_reports(home: Path) -> None:
    """The runs, and the documents that a report shows."""
    _run(home)
    _reports(home / "reports", home / "run")


def _corpora(folder: Path) -> None:
    lists = test_corpus()[:6]
    for name in ("lists.tsv", "lists.lra.tsv", "lists.parquet", "lists.jsonl"):
        formats.write(lists, folder / name)
    formats.write(replace(lists, ids=None), folder / "lists.ptb")
    files.write_text(folder / "table.csv", 'shape,colour,target\ncircle,red,yes\nsquare,"dark, blue",no\n')
    dataset = folder.with_name("dataset")
    formats.write(lists, dataset / "test.parquet")
    split = {"files": ["test.parquet"], "rows": len(lists), "fingerprint": lists.fingerprint}
    manifest = {"name": "listops/d20s", "seed": 0, "settings": {}, "version": 1, "splits": {"test": split}}
    files.write_json(dataset / "manifest.json", manifest)
    generate_shards("listops/d20s", folder.with_name("sharded"), shards=2, split="train", rows=60, **SIZES)
    with suppress(InterruptedError):
        generate_shards("listops/d20s", folder.with_name("interrupted"), crew=_Leaving(), **SHARDED)
    formats.write(generate("orchard/easy/first-last", "test-3", 0)[:4], folder / "pairs.input")
    formats.write(generate("fair_nli", "test", 0)[:3], folder / "pairs.snli.jsonl")
    formats.write(every_sentence()[:4], folder / "sentences.jsonl")
    rows = [json.loads(line) for line in files.read_text(folder / "lists.jsonl").splitlines()]
    spelt = [{"text": " ".join(row.pop("tokens"))} | row for row in rows if "tokens" in row] or rows
    files.write_text(folder / "spelt.jsonl", "".join(json.dumps(row, indent=None) + "\n" for row in spelt))
    own = replace(lists, ids=tuple("abcdef"), columns={"source": np.array(list("uvwxyz")), "weight": np.arange(6) / 4})
    formats.write(own, folder / "columns.parquet")
    node = '{"type": "MAX", "children": [' * 1_050 + '{"type": "1", "value": 1}' + "]}" * 1_050
    escaped = node.replace('"value"', '"\\u0076alue"')  # read by `deep_json`, not by the compiled loop
    files.write_text(folder / "deep.jsonl", "".join(f'{{"tree": {one}}}\n' for one in (node, escaped)))
    pair = (files.read_text(folder / f"pairs.{end}").splitlines() for end in ("input", "label"))
    files.write_text(folder / "table.txt", "".join(f"{source}\t{label}\n" for source, label in zip(*pair, strict=True)))


class _Leaving:
    """A worker that leaves when it has written one shard of train."""

    size = 1

    def run(self, task: Any, orders: Iterable[Any]) -> Iterator[tuple[int, Any]]:
        for number, order in enumerate(orders):
            if number == 1 and "train-" in order.get("path", ""):
                raise InterruptedError
            yield number, task(**order)


def _answers(folder: Path) -> None:
    corpus = test_corpus()
    given = asked(corpus).copy()
    given[0] = 9 - given[0]
    write_answers(corpus, Answers("answers", given), folder / "answers.jsonl")
    rows = [json.loads(line) for line in files.read_text(folder / "answers.jsonl").splitlines()]
    table = "id,prediction\n" + "".join(f"{row['id']},{row['prediction']}\n" for row in rows)
    files.write_text(folder / "answers.csv", table)
    texts = brackets.write(binarise(corpus.forest))
    built = [json.dumps({**row, "tree": text}) + "\n" for row, text in zip(rows, texts, strict=True)]
    files.write_text(folder / "trees.jsonl", "".join(built))
    files.write_text(folder / "answers.txt", "".join(f"{row['prediction']}\n" for row in rows))


def _vectors(folder: Path) -> None:
    folder.mkdir(parents=True)
    draw = np.random.default_rng(0)
    colours, shapes = ("red", "blue", "green"), ("square", "circle")
    pairs = [(colour, shape) for colour in colours for shape in shapes]
    table = draw.normal(size=(6, 4))
    np.save(folder / "vectors.npy", table)
    np.savez(folder / "vectors.npz", vectors=table)
    np.savez_compressed(folder / "packed.npz", vectors=table, other=table[:2])
    import pyarrow as pa
    import pyarrow.parquet as pq

    names = ["_".join(pair) for pair in pairs]
    pq.write_table(pa.table({"name": names, "vector": table.tolist()}), folder / "vectors.parquet")
    pq.write_table(pa.table({f"n{at}": table[:, at] for at in range(4)}), folder / "columns.parquet")
    for end in ("npz", "parquet"):
        write_bundle(folder / f"bundle.{end}", table, names, pairs)
    files.write_text(folder / "recipe.toml", 'model = "lstm"\nepochs = 2\n[settings]\nwidth = 8\n')
    files.write_text(folder / "sweep.toml", 'model = ["lstm", "treelstm"]\nseeds = 2\n[recipe]\nepochs = [1, 2]\n')
    files.write_json(folder / "recipe.json", {"model": "lstm", "settings": {"width": 8}, "epochs": 2})
    lines = [f"{name} {' '.join(f'{number:.4f}' for number in row)}" for name, row in zip(names, table, strict=True)]
    files.write_text(folder / "vectors.vec", "6 4\n" + "\n".join(lines) + "\n")
    files.write_text(folder / "derivations.jsonl", "".join(json.dumps(pair) + "\n" for pair in pairs))
    items = [{"item": name, "derivation": pair} for name, pair in zip(names, pairs, strict=True)]
    files.write_text(folder / "named.jsonl", "".join(json.dumps(item) + "\n" for item in items))
    meanings = [{"colour": colour, "shape": shape} for colour, shape in pairs]
    files.write_text(folder / "meanings.jsonl", "".join(json.dumps(meaning) + "\n" for meaning in meanings))
    files.write_text(folder / "messages.txt", "aa\nab\nba\nbb\nca\ncb\n")


def _words(folder: Path) -> None:
    pairs = [tuple(pair.split()) for pair in ("nest egg", "gravy train", "snail mail", "end user", "web site")]
    lines = [f"{a}-n {b}-n\t4.1 0.9 3.2 1.1 {at % 5}.5 0.7 3" for at, (a, b) in enumerate(pairs)]
    files.write_text(folder / "reddy.txt", "#compound\n" + "\n".join(lines) + "\n")
    words = list(dict.fromkeys(word for a, b in pairs for word in (a, b, f"{a}_{b}")))
    files.write_text(folder / "frequencies.tsv", "".join(f"{word}\t{at + 1}\n" for at, word in enumerate(words)))
    draw = np.random.default_rng(1)
    table = draw.normal(size=(len(words), 3)).astype("<f4")
    rows = [f"{word} {' '.join(map(str, row.tolist()))}" for word, row in zip(words, table, strict=True)]
    files.write_text(folder / "vectors.vec", f"{len(words)} 3\n" + "\n".join(rows) + "\n")
    parts = [word.encode() + b" " + row.tobytes() + b"\n" for word, row in zip(words, table, strict=True)]
    files.write_bytes(folder / "vectors.bin", f"{len(words)} 3\n".encode() + b"".join(parts))
    files.write_text(folder / "corpus.txt", "The nest egg of a bank account.\nThe end user has a web site.\n" * 3)


def _digits(folder: Path) -> None:
    draw = np.random.default_rng(2)
    images = draw.integers(0, 256, (20, 28, 28), np.uint8)
    labels = (np.arange(20) % 10).astype(np.uint8)
    head = [bytes((0, 0, 8, axes)) for axes in (3, 1)]
    counts = [b"".join(size.to_bytes(4, "big") for size in shape) for shape in (images.shape, labels.shape)]
    content = gzip.compress(head[0] + counts[0] + images.tobytes(), mtime=0)
    files.write_bytes(folder / "train-images-idx3-ubyte.gz", content)
    files.write_bytes(folder / "train-labels-idx1-ubyte", head[1] + counts[1] + labels.tobytes())


def _run(home: Path) -> None:
    """A finished run with its evaluation, and a copy of it as it was after its first epoch."""
    from pomona.evaluation.evaluation import Evaluation
    from pomona.evaluation.records import keep
    from pomona.evaluation.subjects import Reading, answer
    from pomona.training.loop import train

    class Stop(BaseException):
        pass

    def stop(now: Any) -> None:
        if now.epoch == 1:
            raise Stop

    with suppress(Stop):
        train(RECIPE, home / "run", progress=stop)
    shutil.copytree(home / "run", home / "paused")
    run = train(RECIPE, home / "run")
    corpus = test_corpus()
    answered = answer(run, corpus, "test", Reading())
    assert answered.predictions is not None
    keep(run, "test", answered.predictions, Evaluation.of(corpus, answered.answers))
    run.write("tracked-campaign.json", {"epochs": 1})


def _reports(folder: Path, run: Path) -> None:
    """A certificate, an evaluation, a fit of TRE and results of a paper, as the commands write them."""
    from pomona.evaluation.comparison import compare
    from pomona.evaluation.evaluation import Evaluation
    from pomona.fairness import certify
    from pomona.training.run import Run

    sentences = every_sentence()
    certify(sentences[[0, 1, 2]], sentences[[0, 2, 5, 7]]).save(folder / "certificate.json")
    shutil.copyfile(folder / "certificate.json", run / "certificate.json")
    bare = run.with_name("bare")
    shutil.copytree(run, bare, ignore=shutil.ignore_patterns("predictions", "*.safetensors"))
    unknown = {**Run.read(run).scores["test"], "fingerprint": "0" * 64}
    files.write_json(bare / "scores.json", {"test": unknown})
    files.write_json(bare / "recipe.json", {**RECIPE.plain, "data": "elsewhere.parquet"})
    files.write_json(folder / "evaluation.json", {**unknown, "name": "model"})
    corpus = test_corpus()
    spoilt = np.where(np.arange(len(corpus)) < 5, 9 - asked(corpus).T, asked(corpus).T).T
    sides = [
        Evaluation.of(corpus, Answers(f"side {side}", given)) for side, given in enumerate((asked(corpus), spoilt))
    ]
    files.write_json(folder / "comparison.json", compare(*sides).as_dict())
    root = Path(__file__).parents[1]
    results = json.loads(files.read_text(root / "results" / "listops_2018.json"))
    recipes = dict(list(results.get("recipes", {}).items())[:1])
    kept = {**results, "paper": "A campaign", "cells": results["cells"][:6], "runs": results["runs"][:1]}
    kept["recipes"] = recipes
    files.write_json(folder / "results.json", kept)
    bound = {
        "status": "exact",
        "lower_bound": 0.3,
        "bound": "dual",
        "gap": 0.0,
        "rank": 4,
        "zero": 1.0,
        "centroid": None,
    }
    item = {"row": 0, "item": "('red', 'square')", "tre": 0.1}
    shuffled = {"shuffles": 9, "mean": 0.8, "lowest": 0.7, "p_value": 0.1, "normalized": 0.6, "reason": None}
    heldout = {"score": 0.4, "in_sample": 0.3, "gap": 0.1, "r_squared": 0.5, "folds": 3, "tested": 6, "anchored": 0}
    fit = {"score": 0.31, "compose": "add", "distance": "cosine", "items": 6, "primitives": 5, "certificate": bound,
           "notes": ["a note"], "best": [item], "worst": [item], "per_item": [0.1, 0.2, 0.3, 0.4, 0.5, 0.36],
           "shuffle": shuffled, "heldout": heldout, "interval": {"low": 0.2, "high": 0.4, "level": 0.95}}  # fmt: skip
    files.write_json(folder / "fit.json", fit)
    files.write_text(folder / "index.html", '<meta name="generator" content="pomona report">\n<a href="figures/x.svg">')


def _experiments(home: Path) -> None:
    """A reference game that is over, one that was interrupted, and learning dynamics that were interrupted."""
    import dataclasses

    from pomona.papers.tre_2019 import dynamics, languages
    from pomona.papers.tre_2019.agents import AgentPairs
    from pomona.papers.tre_2019.game_rules import READINGS

    game = dataclasses.replace(READINGS["code"], **GAME)
    folder = languages.games_folder(home / "games", game, pairs=2)
    languages.play(folder)
    languages.measure(folder)
    paused = languages.games_folder(home / "paused game", game, pairs=2)
    pairs = AgentPairs.fresh(game, 0, range(2))
    pairs.step()
    languages.save(pairs, paused, 0.5)
    settings = dynamics.Dynamics(runs=1, epochs=1, batches=1, batch=4, tasks=1_500, digits="bundled")
    dynamics.learn(dynamics.dynamics_folder(home / "dynamics", settings))

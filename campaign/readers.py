"""One table of everything that is read from outside: the file, and what reads it.

    reader = READERS["weights"]
    reader.read(folder)                    # reads `folder / reader.file` as a command would, and uses what it read

`tests/contracts/test_campaign_readers.py` finds every function in `src` that reads a file or parses JSON, and checks
that a reader of this table calls it: a new one cannot be forgotten.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from campaign import use


@dataclass(frozen=True)
class Reader:
    """What is read, and how: `sealed` files must be refused, or give what the whole file gives; `writes` says that the
    reader also changes the folder."""

    name: str
    file: str  # in the folder of the material
    read: Callable[[Path], Any]  # of the folder of the material, in which this file may be another
    sealed: bool = False
    writes: bool = False


def _working(name: str, file: str, *, sealed: bool = True) -> Reader:
    """A file that a killed command left beside its shards: whatever is in it, the shards come out the same."""
    return Reader(name, f"interrupted/.shards/{file}", use.resumed_shards, sealed, writes=True)


_TABLE = [
    Reader("tsv", "corpora/lists.tsv", use.corpus("lists.tsv")),
    Reader("lra", "corpora/lists.lra.tsv", use.corpus("lists.lra.tsv")),
    Reader("jsonl", "corpora/lists.jsonl", use.corpus("lists.jsonl")),
    Reader("jsonl by text", "corpora/spelt.jsonl", use.corpus("spelt.jsonl")),
    Reader("jsonl of sentences", "corpora/sentences.jsonl", use.corpus("sentences.jsonl")),
    Reader("jsonl of deep trees", "corpora/deep.jsonl", use.corpus("deep.jsonl")),
    Reader("parquet", "corpora/lists.parquet", use.corpus("lists.parquet"), sealed=True),
    Reader("parquet with columns", "corpora/columns.parquet", use.corpus("columns.parquet"), sealed=True),
    Reader("orchard", "corpora/pairs.input", use.corpus("pairs.input")),
    Reader("orchard's labels", "corpora/pairs.label", use.corpus("pairs.input")),
    Reader("orchard in one file", "corpora/table.txt", use.corpus("table.txt")),
    Reader("trees in brackets", "corpora/lists.ptb", use.corpus("lists.ptb")),
    Reader("table of attributes", "corpora/table.csv", use.corpus("table.csv")),
    Reader("manifest", "dataset/manifest.json", use.dataset),
    Reader("manifest of shards", "sharded/manifest.json", use.shards, writes=True),
    Reader("shard", "sharded/train-00000-of-00002.parquet", use.shards, writes=True),
    _working("keys of shards in the making", "train/block-000000.keys"),
    _working("excluded keys of shards in the making", "train/excluded.keys"),
    _working("numbers of shards in the making", "train/distinct-00000-of-1-blocks.numbers"),
    _working("draws of shards in the making", "train/draws.json"),
    _working("plan of shards in the making", "train/plan.json"),
    _working("first rows of shards in the making", "train/head.npy"),
    _working("split of shards in the making", "dev/record.json", sealed=False),
    _working("record of shards in the making", "train/train-00000-of-00003.parquet.json", sealed=False),
    _working("about of shards in the making", "about.json"),
    Reader("recipe in JSON", "vectors/recipe.json", use.recipe("recipe.json")),
    Reader("recipe in TOML", "vectors/recipe.toml", use.recipe("recipe.toml")),
    Reader("plan of a sweep", "vectors/sweep.toml", use.plan),
    Reader("vectors with derivations", "vectors/bundle.npz", use.bundle("bundle.npz")),
    Reader("vectors with derivations in parquet", "vectors/bundle.parquet", use.bundle("bundle.parquet"), sealed=True),
    Reader("snli", "corpora/pairs.snli.jsonl", use.corpus("pairs.snli.jsonl")),
    Reader("answers", "answers/answers.jsonl", use.answers("answers.jsonl")),
    Reader("answers with trees", "answers/trees.jsonl", use.answers("trees.jsonl")),
    Reader("answers in a table", "answers/answers.csv", use.answers("answers.csv")),
    Reader("answers as lines", "answers/answers.txt", use.lines_of_answers),
    Reader("npy", "vectors/vectors.npy", use.tre("vectors.npy", "derivations.jsonl")),
    Reader("npz", "vectors/vectors.npz", use.tre("vectors.npz", "derivations.jsonl")),
    Reader("packed npz", "vectors/packed.npz", use.tre("packed.npz", "derivations.jsonl")),
    Reader("vectors in parquet", "vectors/vectors.parquet", use.tre("vectors.parquet", "named.jsonl")),
    Reader("columns in parquet", "vectors/columns.parquet", use.tre("columns.parquet", "derivations.jsonl")),
    Reader("word vectors", "vectors/vectors.vec", use.tre("vectors.vec", "named.jsonl")),
    Reader("derivations", "vectors/derivations.jsonl", use.tre("vectors.npy", "derivations.jsonl")),
    Reader("named derivations", "vectors/named.jsonl", use.tre("vectors.vec", "named.jsonl")),
    Reader("meanings", "vectors/meanings.jsonl", use.topsim),
    Reader("messages", "vectors/messages.txt", use.topsim),
    Reader("compounds", "words/reddy.txt", use.judged("vectors.vec")),
    Reader("frequencies", "words/frequencies.tsv", use.judged("vectors.vec")),
    Reader("word2vec", "words/vectors.vec", use.judged("vectors.vec")),
    Reader("binary word2vec", "words/vectors.bin", use.judged("vectors.bin")),
    Reader("text", "words/corpus.txt", use.text),
    Reader("digits", "digits/train-images-idx3-ubyte.gz", use.digits),
    Reader("labels of digits", "digits/train-labels-idx1-ubyte", use.digits),
    Reader("recipe", "bare/recipe.json", use.bare_page),
    Reader("curve", "bare/curve.jsonl", use.bare_page),
    Reader("summary", "bare/summary.json", use.bare_page),
    Reader("scores", "bare/scores.json", use.bare_page),
    Reader("certificate of a run", "bare/certificate.json", use.bare_page),
    Reader("predictions in a report", "run/predictions/test.safetensors", use.run_page, sealed=True),
    Reader("predictions", "run/predictions/test.safetensors", use.predictions, sealed=True),
    Reader("weights", "run/best.safetensors", use.weights, sealed=True),
    Reader("recipe of weights", "run/recipe.json", use.weights),
    Reader("what was tracked", "run/tracked-campaign.json", use.tracked, writes=True),
    Reader("state", "paused/state.safetensors", use.resumed, sealed=True, writes=True),
    Reader("recipe of a state", "paused/recipe.json", use.resumed, writes=True),
    Reader("fingerprints of a run", "paused/data.json", use.resumed, writes=True),
    Reader("certificate", "reports/certificate.json", use.certificate),
    Reader("certificate in a report", "reports/certificate.json", use.report("certificate.json")),
    Reader("evaluation in a report", "reports/evaluation.json", use.report("evaluation.json")),
    Reader("comparison in a report", "reports/comparison.json", use.report("comparison.json")),
    Reader("fit in a report", "reports/fit.json", use.report("fit.json")),
    Reader("results in a report", "reports/results.json", use.report("results.json")),
    Reader("results that are added to", "reports/results.json", use.merged, writes=True),
    Reader("page of an older report", "reports/index.html", use.old_page, writes=True),
    Reader("settings of a game", "paused game/settings.json", use.resumed_game, writes=True),
    Reader("state of a game", "paused game/state.safetensors", use.resumed_game, sealed=True, writes=True),
    Reader("languages", "games/languages.json", use.games, writes=True),
    Reader("scores of languages", "games/scores.json", use.games, writes=True),
    Reader("settings of dynamics", "dynamics/settings.json", use.dynamics, writes=True),
    Reader("curves of dynamics", "dynamics/run-0.json", use.dynamics, writes=True),
    Reader("vectors of dynamics", "dynamics/theta-0.safetensors", use.dynamics, sealed=True, writes=True),
]
READERS = {reader.name: reader for reader in _TABLE}

"""One table of everything that is read from outside: the file, and what reads it.

    reader = READERS["weights"]
    reader.read(folder)                    # reads `folder / reader.file` as a command would, and uses what it read

`tests/contracts/test_campaign_readers.py` finds every function in `src` that reads a file or parses JSON, and checks
that a reader of this table calls it: a new one cannot be forgotten.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

from campaign.material import RECIPE, SIZES, test_corpus
from pomona.papers.records import joined
from pomona.papers.reproduce import PAPERS, Paper, Plan, reproduce
from pomona.training.tracking import TRACKERS, Tracker, follow


@dataclass(frozen=True)
class Reader:
    """What is read, and how: `sealed` files must be refused, or give what the whole file gives; `writes` says that the
    reader also changes the folder."""

    name: str
    file: str  # in the folder of the material
    read: Callable[[Path], Any]  # of the folder of the material, in which this file may be another
    sealed: bool = False
    writes: bool = False


# -- corpora and answers -----------------------------------------------------------------------------------------------


@cache
def _test() -> Any:
    return test_corpus()


def _corpus(name: str) -> Callable[[Path], Any]:
    def read(home: Path) -> Any:
        from pomona.data import formats
        from pomona.data.statistics import describe, token_depths

        corpus = formats.read(home / "corpora" / name)
        describe(corpus)
        token_depths(corpus)
        identity = corpus.fingerprint, corpus.keys.tolist(), corpus.texts, corpus.labels(), corpus.ids
        columns = {name: column.tolist() for name, column in corpus.columns.items()}
        return identity, columns, {key: value for key, value in corpus.origin.items() if key != "path"}

    return read


def _dataset(home: Path) -> Any:
    from pomona.data.datasets import Dataset

    return Dataset.read(home / "dataset").corpus("test").fingerprint


def _shards(home: Path) -> Any:
    """A split in shards is verified; then it is generated again, where whole shards stay as they are."""
    from pomona.data.shards.generation import generate_shards
    from pomona.data.verification import verify

    found = verify(home / "sharded")
    generate_shards("listops/d20s", home / "sharded", shards=2, split="train", rows=60, **SIZES)
    return len(found.problems)


def _recipe(name: str) -> Callable[[Path], Any]:
    def read(home: Path) -> Any:
        from pomona.cli.options import settings_file
        from pomona.training.recipe import Recipe

        return Recipe.from_settings(settings_file(str(home / "vectors" / name))).key

    return read


def _plan(home: Path) -> Any:
    from pomona.sweeps.plan import Plan

    plan = Plan.read(home / "vectors" / "sweep.toml")
    return len(plan.jobs()) if plan.size <= 100 else plan.size


def _bundle(name: str) -> Callable[[Path], Any]:
    def read(home: Path) -> Any:
        from pomona.representations.tre.bundles import read_bundle

        bundle = read_bundle(home / "vectors" / name)
        return bundle.vectors.tolist(), bundle.names, str(bundle.derivations.tree(0))

    return read


def _answers(name: str) -> Callable[[Path], Any]:
    def read(home: Path) -> Any:
        from pomona.data.answers import read_answers
        from pomona.evaluation.evaluation import Evaluation

        return Evaluation.of(_test(), read_answers(home / "answers" / name, _test())).as_dict()

    return read


def _lines_of_answers(home: Path) -> Any:
    from pomona.cli.commands import ladder

    return ladder._answers(_test(), home / "answers" / "answers.txt", len(_test())).tolist()


# -- vectors and words -------------------------------------------------------------------------------------------------


def _tre(vectors: str, derivations: str) -> Callable[[Path], Any]:
    def read(home: Path) -> Any:
        from pomona.representations.tre import tre
        from pomona.representations.tre.readers import match_rows, read_derivations, read_representations

        trees, items = read_derivations(home / "vectors" / derivations)
        values = match_rows(
            read_representations(home / "vectors" / vectors, "vectors" if "packed" in vectors else None), items
        )
        return tre(values, trees, "add", "sql2").score

    return read


def _topsim(home: Path) -> Any:
    from pomona.evaluation.measure import MEASURES, plain_values, read_item_files

    chosen = MEASURES.build("topsim", {})
    items = read_item_files(chosen, [home / "vectors" / "meanings.jsonl", home / "vectors" / "messages.txt"])
    return plain_values(chosen.of_items(*items))


def _judged(vectors: str) -> Callable[[Path], Any]:
    def read(home: Path) -> Any:
        from pomona.papers.tre_2019 import compounds
        from pomona.papers.tre_2019 import vectors as word_vectors

        folder = home / "words"
        listed = compounds.read_reddy(folder / "reddy.txt")
        table = word_vectors.vectors_from_file(folder / vectors, compounds.wanted(listed))
        return len(table), len(compounds.read_frequencies(folder / "frequencies.tsv"))

    return read


def _text(home: Path) -> Any:
    from pomona.papers.tre_2019.vectors import Text

    return list(Text(home / "words" / "corpus.txt", frozenset({("nest", "egg")})))


def _digits(home: Path) -> Any:
    from pomona.papers.tre_2019.concepts import Tasks, read_digits

    return len(Tasks.draw(read_digits(home / "digits"), 0, 20))


# -- runs --------------------------------------------------------------------------------------------------------------


def _run_page(home: Path) -> Any:
    """The page of a run: everything that its folder holds."""
    return _page([home / "run"])


def _bare_page(home: Path) -> Any:
    """The page of a run whose examples are not found: what it has kept itself."""
    from pomona.training.run import Run

    _ = Run.read(home / "bare").environment
    return _page([home / "bare"])


def _page(paths: list[Path]) -> Any:
    from pomona.reports.collect import collect
    from pomona.reports.inputs import gather
    from pomona.reports.page import html
    from pomona.reports.plots import all_plots

    collected = collect(gather(paths))
    with mock.patch("pomona.reports.figures.library", return_value=""):  # 0.9 MB of Vega, which no file changes
        content = html(collected, all_plots(collected), "t", 10, with_figures=False)
    return len(content.encode())


def _weights(home: Path) -> Any:
    from pomona.training.predict import predict
    from pomona.training.run import Run

    return predict(Run.read(home / "run"), _test()).logits.tolist()


def _resumed(home: Path) -> Any:
    """A run that goes on from its saved state, for one step."""
    from pomona.training.loop import train

    class Enough(Exception):  # noqa: N818 - no error
        pass

    def stop(now: Any) -> None:
        nonlocal loss
        loss = now.step, now.loss
        raise Enough

    loss = None
    with suppress(Enough):
        train(RECIPE, home / "paused", progress=stop)
    return loss


@TRACKERS.add("campaign")
@dataclass(frozen=True)
class _Tracker(Tracker):
    """A tracker that shows nothing."""

    name = "campaign"

    def send(self, run: Any, entries: Any) -> None:
        assert entries


def _tracked(home: Path) -> Any:
    """What a tracker was sent, and the rest of the curve."""
    from pomona.training.run import Run

    follow(home / "run", ["campaign"])
    return Run.read(home / "run").read_json("tracked-campaign.json")


def _predictions(home: Path) -> Any:
    from pomona.evaluation.accuracy import answers_from
    from pomona.evaluation.evaluation import Evaluation
    from pomona.training.predictions import Predictions

    predictions = Predictions.load(home / "run" / "predictions" / "test.safetensors")
    return Evaluation.of(_test(), answers_from(predictions, _test(), "test")).as_dict()


# -- documents ---------------------------------------------------------------------------------------------------------


def _report(name: str) -> Callable[[Path], Any]:
    return lambda home: _page([home / "reports" / name])


def _certificate(home: Path) -> Any:
    from pomona.fairness import Certificate

    certificate = Certificate.load(home / "reports" / "certificate.json")
    return certificate.plain(), repr(certificate)


@dataclass(frozen=True)
class _Paper(Paper):
    """A paper without experiments, whose results are added to a file."""

    name = "campaign"
    title = "A campaign"
    places = ("Table 1",)

    def measure(self, plan: Plan) -> dict[str, Any]:
        known = [record for row in plan.known.values() for record in joined(row, [RECIPE], [])]
        return {"cells": [plan.cell("Table 1", "LSTM", "accuracy", 73.3, [71.0])], "runs": known[:1]}


def _merged(home: Path) -> Any:
    """Results that `reproduce` adds to; nothing is trained."""
    PAPERS.add("campaign")(_Paper)
    return len(reproduce("campaign", out=home / "reports" / "results.json")["cells"])


def _old_page(home: Path) -> Any:
    from pomona.reports.page import report

    with mock.patch("pomona.reports.figures.library", return_value=""):
        return len(report([home / "reports" / "fit.json"], home / "reports", with_figures=False).notes)


# -- experiments of the TRE paper --------------------------------------------------------------------------------------


def _games(home: Path) -> Any:
    """What is said of languages that were trained and measured; a language that is not measured yet is measured."""
    from pomona.papers.tre_2019 import languages, similarity
    from pomona.papers.tre_2019.folders import Folder

    folder = Folder(home / "games")
    scores = languages.read_scores(folder)
    return len(str(languages.judged(folder, scores))), similarity.of_languages(scores)["languages"]


def _resumed_game(home: Path) -> Any:
    import dataclasses

    from campaign.material import GAME
    from pomona.papers.tre_2019 import languages
    from pomona.papers.tre_2019.game_rules import READINGS

    folder = languages.games_folder(home / "paused game", dataclasses.replace(READINGS["code"], **GAME), pairs=2)
    languages.play(folder)
    return folder.read("languages.json", {})["pairs"]


def _dynamics(home: Path) -> Any:
    from pomona.papers.tre_2019 import dynamics
    from pomona.papers.tre_2019.folders import Folder

    thetas = dynamics.thetas(home / "dynamics")
    return dynamics.judge(Folder(home / "dynamics"))["runs"], [np.sum(theta) for theta in thetas]


# -- the table ---------------------------------------------------------------------------------------------------------

_TABLE = [
    Reader("tsv", "corpora/lists.tsv", _corpus("lists.tsv")),
    Reader("lra", "corpora/lists.lra.tsv", _corpus("lists.lra.tsv")),
    Reader("jsonl", "corpora/lists.jsonl", _corpus("lists.jsonl")),
    Reader("jsonl by text", "corpora/spelt.jsonl", _corpus("spelt.jsonl")),
    Reader("jsonl of sentences", "corpora/sentences.jsonl", _corpus("sentences.jsonl")),
    Reader("jsonl of deep trees", "corpora/deep.jsonl", _corpus("deep.jsonl")),
    Reader("parquet", "corpora/lists.parquet", _corpus("lists.parquet"), sealed=True),
    Reader("parquet with columns", "corpora/columns.parquet", _corpus("columns.parquet"), sealed=True),
    Reader("orchard", "corpora/pairs.input", _corpus("pairs.input")),
    Reader("orchard's labels", "corpora/pairs.label", _corpus("pairs.input")),
    Reader("orchard in one file", "corpora/table.txt", _corpus("table.txt")),
    Reader("trees in brackets", "corpora/lists.ptb", _corpus("lists.ptb")),
    Reader("table of attributes", "corpora/table.csv", _corpus("table.csv")),
    Reader("manifest", "dataset/manifest.json", _dataset),
    Reader("manifest of shards", "sharded/manifest.json", _shards, writes=True),
    Reader("shard", "sharded/train-00000-of-00002.parquet", _shards, writes=True),
    Reader("recipe in JSON", "vectors/recipe.json", _recipe("recipe.json")),
    Reader("recipe in TOML", "vectors/recipe.toml", _recipe("recipe.toml")),
    Reader("plan of a sweep", "vectors/sweep.toml", _plan),
    Reader("vectors with derivations", "vectors/bundle.npz", _bundle("bundle.npz")),
    Reader("vectors with derivations in parquet", "vectors/bundle.parquet", _bundle("bundle.parquet"), sealed=True),
    Reader("snli", "corpora/pairs.snli.jsonl", _corpus("pairs.snli.jsonl")),
    Reader("answers", "answers/answers.jsonl", _answers("answers.jsonl")),
    Reader("answers with trees", "answers/trees.jsonl", _answers("trees.jsonl")),
    Reader("answers in a table", "answers/answers.csv", _answers("answers.csv")),
    Reader("answers as lines", "answers/answers.txt", _lines_of_answers),
    Reader("npy", "vectors/vectors.npy", _tre("vectors.npy", "derivations.jsonl")),
    Reader("npz", "vectors/vectors.npz", _tre("vectors.npz", "derivations.jsonl")),
    Reader("packed npz", "vectors/packed.npz", _tre("packed.npz", "derivations.jsonl")),
    Reader("vectors in parquet", "vectors/vectors.parquet", _tre("vectors.parquet", "named.jsonl")),
    Reader("columns in parquet", "vectors/columns.parquet", _tre("columns.parquet", "derivations.jsonl")),
    Reader("word vectors", "vectors/vectors.vec", _tre("vectors.vec", "named.jsonl")),
    Reader("derivations", "vectors/derivations.jsonl", _tre("vectors.npy", "derivations.jsonl")),
    Reader("named derivations", "vectors/named.jsonl", _tre("vectors.vec", "named.jsonl")),
    Reader("meanings", "vectors/meanings.jsonl", _topsim),
    Reader("messages", "vectors/messages.txt", _topsim),
    Reader("compounds", "words/reddy.txt", _judged("vectors.vec")),
    Reader("frequencies", "words/frequencies.tsv", _judged("vectors.vec")),
    Reader("word2vec", "words/vectors.vec", _judged("vectors.vec")),
    Reader("binary word2vec", "words/vectors.bin", _judged("vectors.bin")),
    Reader("text", "words/corpus.txt", _text),
    Reader("digits", "digits/train-images-idx3-ubyte.gz", _digits),
    Reader("labels of digits", "digits/train-labels-idx1-ubyte", _digits),
    Reader("recipe", "bare/recipe.json", _bare_page),
    Reader("curve", "bare/curve.jsonl", _bare_page),
    Reader("summary", "bare/summary.json", _bare_page),
    Reader("scores", "bare/scores.json", _bare_page),
    Reader("certificate of a run", "bare/certificate.json", _bare_page),
    Reader("predictions in a report", "run/predictions/test.safetensors", _run_page, sealed=True),
    Reader("predictions", "run/predictions/test.safetensors", _predictions, sealed=True),
    Reader("weights", "run/best.safetensors", _weights, sealed=True),
    Reader("recipe of weights", "run/recipe.json", _weights),
    Reader("what was tracked", "run/tracked-campaign.json", _tracked, writes=True),
    Reader("state", "paused/state.safetensors", _resumed, sealed=True, writes=True),
    Reader("recipe of a state", "paused/recipe.json", _resumed, writes=True),
    Reader("fingerprints of a run", "paused/data.json", _resumed, writes=True),
    Reader("certificate", "reports/certificate.json", _certificate),
    Reader("certificate in a report", "reports/certificate.json", _report("certificate.json")),
    Reader("evaluation in a report", "reports/evaluation.json", _report("evaluation.json")),
    Reader("fit in a report", "reports/fit.json", _report("fit.json")),
    Reader("results in a report", "reports/results.json", _report("results.json")),
    Reader("results that are added to", "reports/results.json", _merged, writes=True),
    Reader("page of an older report", "reports/index.html", _old_page, writes=True),
    Reader("settings of a game", "paused game/settings.json", _resumed_game, writes=True),
    Reader("state of a game", "paused game/state.safetensors", _resumed_game, sealed=True, writes=True),
    Reader("languages", "games/languages.json", _games, writes=True),
    Reader("scores of languages", "games/scores.json", _games, writes=True),
    Reader("settings of dynamics", "dynamics/settings.json", _dynamics, writes=True),
    Reader("curves of dynamics", "dynamics/run-0.json", _dynamics, writes=True),
    Reader("vectors of dynamics", "dynamics/theta-0.safetensors", _dynamics, sealed=True, writes=True),
]
READERS = {reader.name: reader for reader in _TABLE}

"""What reads the files of `readers`, and uses what it read, as a command would: functions of the material's folder."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

from campaign.material import RECIPE, SHARDED, SIZES, test_corpus
from pomona.papers.records import joined
from pomona.papers.reproduce import PAPERS, Paper, Plan, reproduce
from pomona.training.tracking import TRACKERS, Tracker, follow

# -- corpora and answers -----------------------------------------------------------------------------------------------


@cache
def test() -> Any:
    return test_corpus()


def corpus(name: str) -> Callable[[Path], Any]:
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


def dataset(home: Path) -> Any:
    from pomona.data.datasets import Dataset

    return Dataset.read(home / "dataset").corpus("test").fingerprint


def shards(home: Path) -> Any:
    """A split in shards is verified; then it is generated again, where whole shards stay as they are."""
    from pomona.data.shards.generation import generate_shards
    from pomona.data.verification import verify

    found = verify(home / "sharded")
    generate_shards("listops/d20s", home / "sharded", shards=2, split="train", rows=60, **SIZES)
    return len(found.problems)


def resumed_shards(home: Path) -> Any:
    """Shards whose command was killed are finished: the files, and those of the manifest."""
    from pomona.data.shards.generation import generate_shards

    folder = generate_shards("listops/d20s", home / "interrupted", **SHARDED)
    return {path.name: sha256(path.read_bytes()).hexdigest() for path in sorted(folder.iterdir())}


def recipe(name: str) -> Callable[[Path], Any]:
    def read(home: Path) -> Any:
        from pomona.cli.options import settings_file
        from pomona.training.recipe import Recipe

        return Recipe.from_settings(settings_file(str(home / "vectors" / name))).key

    return read


def plan(home: Path) -> Any:
    from pomona.sweeps.plan import Plan

    plan = Plan.read(home / "vectors" / "sweep.toml")
    return len(plan.jobs()) if plan.size <= 100 else plan.size


def bundle(name: str) -> Callable[[Path], Any]:
    def read(home: Path) -> Any:
        from pomona.representations.tre.bundles import read_bundle

        bundle = read_bundle(home / "vectors" / name)
        return bundle.vectors.tolist(), bundle.names, str(bundle.derivations.tree(0))

    return read


def answers(name: str) -> Callable[[Path], Any]:
    def read(home: Path) -> Any:
        from pomona.data.answers import read_answers
        from pomona.evaluation.evaluation import Evaluation

        return Evaluation.of(test(), read_answers(home / "answers" / name, test())).as_dict()

    return read


def lines_of_answers(home: Path) -> Any:
    from pomona.cli.commands import ladder

    return ladder._answers(test(), home / "answers" / "answers.txt", len(test())).tolist()


# -- vectors and words -------------------------------------------------------------------------------------------------


def tre(vectors: str, derivations: str) -> Callable[[Path], Any]:
    def read(home: Path) -> Any:
        from pomona.representations.tre import tre
        from pomona.representations.tre.readers import match_rows, read_derivations, read_representations

        trees, items = read_derivations(home / "vectors" / derivations)
        values = match_rows(
            read_representations(home / "vectors" / vectors, "vectors" if "packed" in vectors else None), items
        )
        return tre(values, trees, "add", "sql2").score

    return read


def topsim(home: Path) -> Any:
    from pomona.evaluation.measure import MEASURES, plain_values, read_item_files

    chosen = MEASURES.build("topsim", {})
    items = read_item_files(chosen, [home / "vectors" / "meanings.jsonl", home / "vectors" / "messages.txt"])
    return plain_values(chosen.of_items(*items))


def judged(vectors: str) -> Callable[[Path], Any]:
    def read(home: Path) -> Any:
        from pomona.papers.tre_2019 import compounds
        from pomona.papers.tre_2019 import vectors as word_vectors

        folder = home / "words"
        listed = compounds.read_reddy(folder / "reddy.txt")
        table = word_vectors.vectors_from_file(folder / vectors, compounds.wanted(listed))
        return len(table), len(compounds.read_frequencies(folder / "frequencies.tsv"))

    return read


def text(home: Path) -> Any:
    from pomona.papers.tre_2019.vectors import Text

    return list(Text(home / "words" / "corpus.txt", frozenset({("nest", "egg")})))


def digits(home: Path) -> Any:
    from pomona.papers.tre_2019.concepts import Tasks, read_digits

    return len(Tasks.draw(read_digits(home / "digits"), 0, 20))


# -- runs --------------------------------------------------------------------------------------------------------------


def run_page(home: Path) -> Any:
    """The page of a run: everything that its folder holds."""
    return page([home / "run"])


def bare_page(home: Path) -> Any:
    """The page of a run whose examples are not found: what it has kept itself."""
    from pomona.training.run import Run

    _ = Run.read(home / "bare").environment
    return page([home / "bare"])


def page(paths: list[Path]) -> Any:
    from pomona.reports.collect import collect
    from pomona.reports.inputs import gather
    from pomona.reports.page import html
    from pomona.reports.plots import all_plots

    collected = collect(gather(paths))
    with mock.patch("pomona.reports.figures.library", return_value=""):  # 0.9 MB of Vega, which no file changes
        content = html(collected, all_plots(collected), "t", 10, with_figures=False)
    return len(content.encode())


def weights(home: Path) -> Any:
    from pomona.training.predict import predict
    from pomona.training.run import Run

    return predict(Run.read(home / "run"), test()).logits.tolist()


def resumed(home: Path) -> Any:
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


def tracked(home: Path) -> Any:
    """What a tracker was sent, and the rest of the curve."""
    from pomona.training.run import Run

    follow(home / "run", ["campaign"])
    return Run.read(home / "run").read_json("tracked-campaign.json")


def predictions(home: Path) -> Any:
    from pomona.evaluation.accuracy import answers_from
    from pomona.evaluation.evaluation import Evaluation
    from pomona.training.predictions import Predictions

    predictions = Predictions.load(home / "run" / "predictions" / "test.safetensors")
    return Evaluation.of(test(), answers_from(predictions, test(), "test")).as_dict()


# -- documents ---------------------------------------------------------------------------------------------------------


def report(name: str) -> Callable[[Path], Any]:
    return lambda home: page([home / "reports" / name])


def certificate(home: Path) -> Any:
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


def merged(home: Path) -> Any:
    """Results that `reproduce` adds to; nothing is trained."""
    PAPERS.add("campaign")(_Paper)
    return len(reproduce("campaign", out=home / "reports" / "results.json")["cells"])


def old_page(home: Path) -> Any:
    from pomona.reports.page import report

    with mock.patch("pomona.reports.figures.library", return_value=""):
        return len(report([home / "reports" / "fit.json"], home / "reports", with_figures=False).notes)


# -- experiments of the TRE paper --------------------------------------------------------------------------------------


def games(home: Path) -> Any:
    """What is said of languages that were trained and measured; a language that is not measured yet is measured."""
    from pomona.papers.tre_2019 import languages, similarity
    from pomona.papers.tre_2019.folders import Folder

    folder = Folder(home / "games")
    scores = languages.read_scores(folder)
    return len(str(languages.judged(folder, scores))), similarity.of_languages(scores)["languages"]


def resumed_game(home: Path) -> Any:
    import dataclasses

    from campaign.material import GAME
    from pomona.papers.tre_2019 import languages
    from pomona.papers.tre_2019.game_rules import READINGS

    folder = languages.games_folder(home / "paused game", dataclasses.replace(READINGS["code"], **GAME), pairs=2)
    languages.play(folder)
    return folder.read("languages.json", {})["pairs"]


def dynamics(home: Path) -> Any:
    from pomona.papers.tre_2019 import dynamics
    from pomona.papers.tre_2019.folders import Folder

    thetas = dynamics.thetas(home / "dynamics")
    return dynamics.judge(Folder(home / "dynamics"))["runs"], [np.sum(theta) for theta in thetas]

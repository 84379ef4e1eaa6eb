"""The four experiments of the TRE paper: what is measured, as cells beside the printed numbers.

Every correlation has a 95 % interval (`low`, `high`) from resampling runs, and is measured with the exact solver and
with the published one. The results also hold everything that went into the cells, and an `answer` in words.

The data folder (POMONA_DATA, else ../shared/data) may hold `concepts/data.tar.gz` (the paper's pictures) or `mnist/`,
and for the compounds `compounds/model7.vec` (the paper's vectors), `vectors.vec` or .bin or `cbow.vec`, each with
`NAME_counts.csv`, `corpus.txt` and `frequencies.tsv`. Without them scikit-learn's digits and an installed sentence
encoder are used. Nothing is downloaded.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from pomona.base.errors import SpecError
from pomona.models.model import threads_of
from pomona.papers.reproduce import Budget, Cell, Plan
from pomona.papers.tre_2019 import compounds, dynamics, figures, languages, similarity, vectors
from pomona.papers.tre_2019.concepts import data_folder
from pomona.papers.tre_2019.folders import Folder
from pomona.papers.tre_2019.game_rules import READINGS, Game
from pomona.papers.tre_2019.printed import PRINTED

SOLVERS = {"exact": "exact", "legacy": "as published", "frozen": "as published, from zero", "normalised": "normalised"}
INFORMATION = {
    "entropy": "entropy",
    "entropy_range": "entropy, bins over its range",
    "information": "information about the attribute",
}

FASTER = 2e-3  # rate of learning with which the stand-in is learnt about as fast as the paper's pictures
BEST_EPOCH = 11.7  # mean over the ten runs whose logs stand in the author's notebook; the first epoch is 1
BROUGHT = ("model7.vec", "vectors.vec", "vectors.bin", "cbow.vec")  # vectors in the data folder; model7 is the paper's
CONTROLS = {
    "given frequency": "given the rarer word's frequency",
    "given count": "given the compound's own count",
    "seen often": f"of compounds seen {compounds.OFTEN} times or more",
}


def settings(budget: Budget) -> tuple[dict[str, tuple[Game, int]], dynamics.Dynamics]:
    """The games of each reading with the number of pairs, and the settings of the learning dynamics.

    `cpu` has the paper's sizes, except that the text's reading of the game has 30 pairs instead of 100.
    """
    if budget == "smoke":
        small = {name: (dataclasses.replace(game, hidden=24, batch=64, steps=20), 4) for name, game in READINGS.items()}
        return small, dynamics.Dynamics(runs=2, epochs=2, batches=5, batch=64, tasks=1_500)
    pairs = {"code": 100, "paper": 30 if budget == "cpu" else 100}
    return {name: (game, pairs[name]) for name, game in READINGS.items()}, dynamics.Dynamics()


def measure(plan: Plan) -> dict[str, Any]:
    """Run the experiments that the plan asks for, and measure all that are finished."""
    results: dict[str, Any] = {"cells": []}
    experiments: dict[str, Callable[[Plan, bool], tuple[dict[str, Any], list[Cell]]]] = {
        "dynamics": _dynamics, "faster dynamics": _faster_dynamics, "compounds": _compounds, "game": _game,
        "similarity": _similarity,
    }  # fmt: skip
    for name, experiment in experiments.items():
        # Similarity measures the representations of two other experiments, so asking for it runs them too.
        wanted = not plan.where or name in plan.where or (name in ("dynamics", "game") and "similarity" in plan.where)
        with threads_of(plan.threads):
            results[name], cells = experiment(plan, wanted and plan.train_missing)
        results["cells"] += cells
    results["cells"] = _unmeasured(plan, results["cells"]) + results["cells"]
    results["answer"] = answer(results["game"])
    return results


def answer(game: Mapping[str, Any]) -> str:
    """Whether the paper's correlation survives the exact solver, in words; empty if it was not measured."""
    sentences = []
    for reading, judged in game.items():
        rows = {(row["tre"], row["against"], row["runs"]): row for row in judged["correlations"]}
        exact, legacy = (rows.get((kind, "generalisation error", "all runs")) for kind in ("exact", "legacy"))
        if not exact or not legacy or exact["low"] is None or legacy["low"] is None:
            continue
        if exact["low"] > 0:
            verdict = "survives the exact solver"
        elif exact["high"] <= 0:
            verdict = "is reversed by the exact solver"
        elif legacy["low"] > 0:
            verdict = "does not survive the exact solver"
        else:
            verdict = "cannot be distinguished from zero, neither with the exact solver nor as published"
        same = rows["exact", "generalisation error", "all runs"]["given_information"]
        beyond = "" if same["value"] is None else f"; {_range(same)} among languages with equal message entropy"
        sentences.append(
            f"{reading}, {judged['pairs']} pairs: the correlation of TRE with generalisation error {verdict}: "
            f"r = {_range(exact)}, as published r = {_range(legacy)}{beyond}"
        )
    return ". ".join(sentences) + "." if sentences else ""


def _range(correlation: Mapping[str, Any]) -> str:
    return f"{correlation['value']:.2f} [{correlation['low']:.2f}, {correlation['high']:.2f}]"


def _cell(plan: Plan, experiment: str, row: str, column: str, correlation: Mapping[str, Any], runs: int) -> Cell:
    """A correlation as a cell: its value, and its interval as low and high."""
    value, low, high = (
        None if correlation[name] is None else round(correlation[name], 3) for name in ("value", "low", "high")
    )
    own = "normalised" in row or "1 - cos" in row  # measures that the paper does not have
    printed = None if own else PRINTED.get((experiment.removeprefix("faster "), column))
    cell = plan.cell(experiment, row, column, printed, [], measured=value, runs=runs)
    asked = f'"{experiment}"' if " " in experiment else experiment
    return {**cell, "low": low, "high": high, "command": f"{cell['command']} --experiment {asked}"}


def _unmeasured(plan: Plan, measured: list[Cell]) -> list[Cell]:
    """An empty cell for each printed number that has not been measured."""
    rows = {"dynamics": "exact", "compounds": "CBOW, exact", "game": "code, exact"}
    known = {(cell["where"], cell["row"], cell["column"]) for cell in measured}
    cells = []
    for (experiment, column), printed in PRINTED.items():
        row = "network" if column == "validation accuracy" else rows[experiment]
        if (experiment, row, column) not in known:
            cells.append(plan.cell(experiment, row, column, printed, []))
    return cells


# -- section 4 ------------------------------------------------------------------------------------------------------


def _dynamics(plan: Plan, train: bool) -> tuple[dict[str, Any], list[Cell]]:
    return _learnt(plan, "dynamics", settings(plan.budget)[1], train)


def _faster_dynamics(plan: Plan, train: bool) -> tuple[dict[str, Any], list[Cell]]:
    """The stand-in is learnt more slowly than the paper's pictures: with a higher rate, networks come as far as its."""
    usual = settings(plan.budget)[1]
    return _learnt(plan, "faster dynamics", dataclasses.replace(usual, rate=FASTER, runs=min(usual.runs, 5)), train)


def _learnt(
    plan: Plan, place: str, chosen: dynamics.Dynamics, train: bool
) -> tuple[dict[str, Any], list[Cell]]:
    folder = plan.home / place.replace(" ", "-")
    if not train and not folder.exists():
        return {}, []
    opened = dynamics.dynamics_folder(folder, chosen)
    for run in range(chosen.runs if train else 0):
        learn = partial(dynamics.learn, opened, only=[run], say=plan.say)
        plan.done(f"{folder.name}/run-{run}", (folder / f"run-{run}.json").exists(), learn)
    judged = dynamics.judge(opened)
    if not judged["runs"]:
        return {}, []
    figures.draw_dynamics(folder.with_suffix(".svg"), judged["curves"])
    printed = PRINTED["dynamics", "validation accuracy"]
    accuracies = [100 * value for value in judged["accuracies"]]
    cells = [
        plan.cell(place, "network", "validation accuracy", printed, accuracies),
        plan.cell(place, "network", "epoch of the best validation accuracy", BEST_EPOCH, judged["best epochs"]),
    ]
    for row in judged["correlations"]:
        column = f"r with {INFORMATION[row['information']]}, {row['epochs']}"
        cells.append(_cell(plan, place, SOLVERS[row["tre"]], column, row, judged["runs"]))
    return {key: value for key, value in judged.items() if key != "curves"}, cells


# -- section 5 ------------------------------------------------------------------------------------------------------


def _compounds(plan: Plan, train: bool) -> tuple[dict[str, Any], list[Cell]]:
    data = data_folder() / "compounds"
    folder = plan.home / "compounds"
    if not train and not folder.exists():
        return {}, []
    if not (data / "reddy.txt").is_file():
        plan.say(f"compounds: {data / 'reddy.txt'} is missing; set POMONA_DATA to the folder that holds compounds/")
        return {}, []
    opened = Folder.open(folder, {"experiment": "compounds"})
    sources = {path.name: path.stat().st_size for path in sorted(data.iterdir())}
    judged: dict[str, Any] = opened.read("judged.json", {}, compounds.JUDGED)
    current = not train or (bool(judged) and opened.read("sources.json", {}) == sources)
    if not plan.done("compounds", current, partial(_write_compounds, opened, data, sources, plan)):
        return {}, []
    judged = opened.read("judged.json", {}, compounds.JUDGED)
    if not judged:
        return {}, []
    figures.draw_compounds(plan.home / "compounds.svg", judged)
    cells = []
    for source, result in judged.items():
        for kind in ("exact", "legacy"):
            row = f"{source}, {SOLVERS[kind]}"
            cells.append(_cell(plan, "compounds", row, "Spearman with judgement", result[kind], result["compounds"]))
        for key, ending in CONTROLS.items():
            if result.get(key) is not None:
                row, column = f"{source}, {SOLVERS['exact']}", f"Spearman with judgement, {ending}"
                cells.append(_cell(plan, "compounds", row, column, result[key], result[key]["items"]))
        row = f"{source}, 1 - cos(w1 + w2, compound)"
        cells.append(_cell(plan, "compounds", row, "Spearman with judgement", result["sum"], result["compounds"]))
    return judged, cells


def _write_compounds(opened: Folder, data: Path, sources: Mapping[str, int], plan: Plan) -> None:
    opened.write("judged.json", _judge_compounds(data, plan))
    opened.write("sources.json", sources)


def _judge_compounds(data: Path, plan: Plan) -> dict[str, Any]:
    """Measure every source of vectors in the data folder; the sentence encoder if there is none.

    The first source is the paper's row, CBOW; others are named after their files.
    """
    listed = compounds.read_reddy(data / "reddy.txt")
    names = compounds.wanted(listed)
    frequencies: Mapping[str, float] | None = compounds.packaged_frequencies(names)
    if (data / "frequencies.tsv").is_file():
        frequencies = compounds.read_frequencies(data / "frequencies.tsv")
    judged: dict[str, Any] = {}
    for path in (data / name for name in BROUGHT):
        if path.is_file():
            plan.say(f"compounds: vectors of {path}")
            counted = path.with_name(f"{path.stem}_counts.csv")
            counts = compounds.read_frequencies(counted) if counted.is_file() else None
            found = vectors.vectors_from_file(path, names)
            row = path.name if judged else "CBOW"
            judged[row] = {"source": path.name, **compounds.judge(listed, found, frequencies or counts, counts)}
    if (data / "corpus.txt").is_file():
        plan.say(f"compounds: CBOW over {data / 'corpus.txt'}")
        pairs = [(compound.first, compound.second) for compound in listed]
        found, seen = vectors.vectors_from_text(data / "corpus.txt", pairs)
        row = "corpus.txt" if judged else "CBOW"
        judged[row] = {"source": "corpus.txt", **compounds.judge(listed, found, frequencies or seen, seen)}
    if not judged:
        plan.say("compounds: vectors of the sentence encoder")
        try:
            layers = vectors.vectors_from_encoder(names)
        except SpecError as error:
            plan.say(f"compounds: {error}")
            return {}
        judged = {f"MiniLM {name}": compounds.judge(listed, layer, frequencies) for name, layer in layers.items()}
    return judged


# -- sections 6 and 7 -----------------------------------------------------------------------------------------------


def _games(plan: Plan) -> dict[str, Folder]:
    """The folders of both readings, as far as they exist."""
    folders = {}
    for name, (game, pairs) in settings(plan.budget)[0].items():
        if (plan.home / f"game-{name}").exists():
            folders[name] = languages.games_folder(plan.home / f"game-{name}", game, pairs=pairs)
    return folders


def _play(folder: Folder, plan: Plan) -> None:
    languages.play(folder, say=plan.say)
    languages.measure(folder, say=plan.say)


def _game(plan: Plan, train: bool) -> tuple[dict[str, Any], list[Cell]]:
    if train:
        for name, (game, pairs) in settings(plan.budget)[0].items():
            folder = languages.games_folder(plan.home / f"game-{name}", game, pairs=pairs)
            measured = len(languages.read_scores(folder)) == pairs
            plan.done(folder.path.name, measured, partial(_play, folder, plan))
    judged, cells, readings = {}, [], {}
    for name, folder in _games(plan).items():
        scores = languages.read_scores(folder)
        if not scores:
            continue
        readings[name] = scores
        judged[name] = languages.judged(folder, scores)
        for row in judged[name]["correlations"]:
            column = f"r with {row['against']}, {row['runs']}"
            cells.append(_cell(plan, "game", f"{name}, {SOLVERS[row['tre']]}", column, row, row["items"]))
    if readings:
        figures.draw_games(plan.home / "game.svg", readings)
    return judged, cells


def _similarity(plan: Plan, train: bool) -> tuple[dict[str, Any], list[Cell]]:
    judged: dict[str, Any] = {}
    readings = {name: scores for name, folder in _games(plan).items() if (scores := languages.read_scores(folder))}
    cells = []
    for name, scores in readings.items():
        judged[name] = similarity.of_languages(scores)
        for other, key in (("TRE", "topsim and TRE"), ("generalisation error", "topsim and generalisation error")):
            column = f"r of topographic similarity with {other}"
            cells.append(_cell(plan, "similarity", f"{name}, exact", column, judged[name][key], len(scores)))
        share = 1 - judged[name]["violations"] / max(1, judged[name]["pairs"])
        cells.append(plan.cell("similarity", f"{name}, exact", "pairs within Proposition 1, per cent", None,
                               [100 * share], runs=len(scores)))  # fmt: skip
    if readings:
        figures.draw_similarity(plan.home / "similarity.svg", readings)
    thetas = dynamics.thetas(plan.home / "dynamics")
    if thetas:
        judged["classifiers"] = similarity.of_classifiers(thetas, dynamics.derivations(settings(plan.budget)[1]))
        for distance in ("l2", "cosine"):
            shares = [100 * (1 - row[distance]["violations"] / row[distance]["pairs"])
                      for row in judged["classifiers"]["runs"]]  # fmt: skip
            cells.append(plan.cell("similarity", f"classifiers, {distance}", "pairs within Proposition 1, per cent",
                                   None, shares))  # fmt: skip
        cells.append(plan.cell("similarity", "classifiers, cosine", "topographic similarity", None,
                               [row["topsim"] for row in judged["classifiers"]["runs"]]))  # fmt: skip
    return judged, cells

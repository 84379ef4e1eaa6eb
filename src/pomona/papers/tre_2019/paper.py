"""Measuring Compositionality in Representation Learning (Andreas, ICLR 2019): its four experiments.

    pomona reproduce tre_2019 --experiment game --budget cpu

What the paper printed, and how each number is measured here; the experiments themselves are in `papers.tre_2019`.
Every correlation has a 95 % interval (`low`, `high`) from resampling runs, and is given for the exact solver and for
the published one. Beside the cells stands all that was judged, and in `answer` the sentence that a reader needs.

The data folder (POMONA_DATA, else ../shared/data) may hold `mnist/`, and for the compounds `compounds/vectors.vec` (or
.bin), `compounds/corpus.txt` and `compounds/frequencies.tsv`; without them scikit-learn's digits and an installed
sentence encoder serve. Nothing is fetched.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pomona.base.errors import SpecError
from pomona.models.model import threads_of
from pomona.papers.reproduce import PAPERS, Budget, Cell, Paper, Plan
from pomona.papers.tre_2019 import compounds, dynamics, figures, games, similarity
from pomona.papers.tre_2019.folders import Folder
from pomona.papers.tre_2019.reference_game import READINGS, Game

# experiment, row, column: what was printed. Rows are solvers; the paper has one, which it calls TRE.
PRINTED: dict[tuple[str, str], float] = {
    ("dynamics", "validation accuracy"): 75.2,
    ("dynamics", "r with entropy, before the best epoch"): 0.70,
    ("dynamics", "r with entropy, from most entropy to the best"): 0.71,
    ("compounds", "Spearman with judgement"): -0.34,
    ("game", "r with generalisation error, all runs"): 0.50,
    ("game", "r with test reward, all runs"): 0.57,
    ("game", "r with generalisation error, successful runs"): 0.60,
    ("game", "r with test reward, successful runs"): 0.38,
}
SOLVERS = {"exact": "exact", "legacy": "as published", "frozen": "as published, from zero", "normalised": "normalised"}
INFORMATION = {
    "entropy": "entropy",
    "entropy_range": "entropy, bins over its range",
    "information": "information about the attribute",
}


def settings(budget: Budget) -> tuple[dict[str, tuple[Game, int]], dynamics.Dynamics]:
    """Games of each reading with how many pairs, and the learning dynamics.

    `cpu` is the paper's size but for the text's reading of the game, which has 30 pairs instead of 100.
    """
    if budget == "smoke":
        small = {name: (dataclasses.replace(game, hidden=24, batch=64, steps=20), 4) for name, game in READINGS.items()}
        return small, dynamics.Dynamics(runs=2, epochs=2, batches=5, batch=64, tasks=1_500)
    pairs = {"code": 100, "paper": 30 if budget == "cpu" else 100}
    return {name: (game, pairs[name]) for name, game in READINGS.items()}, dynamics.Dynamics()


@PAPERS.add("tre_2019")
@dataclass(frozen=True)
class Tre2019(Paper):
    """Four experiments on Tree Reconstruction Error, judged with the exact solver beside the published one."""

    title = "Measuring Compositionality in Representation Learning"
    places = ("dynamics", "compounds", "similarity", "game")

    def measure(self, plan: Plan) -> dict[str, Any]:
        found: dict[str, Any] = {"cells": []}
        work: dict[str, Callable[[Plan, bool], tuple[dict[str, Any], list[Cell]]]] = {
            "dynamics": _dynamics, "compounds": _compounds, "game": _game, "similarity": _similarity,
        }  # fmt: skip
        for place, measure in work.items():
            # What similarity is about is made by two of the others, so asking for it makes them too.
            asked = (
                not plan.where or place in plan.where or (place in ("dynamics", "game") and "similarity" in plan.where)
            )
            with threads_of(plan.threads):
                judged, cells = measure(plan, asked and plan.train_missing)
            found[place] = judged
            found["cells"] += cells
        found["cells"] = _printed(plan, found["cells"]) + found["cells"]
        found["answer"] = answer(found["game"])
        return found


def answer(game: Mapping[str, Any]) -> str:
    """Does the paper's correlation survive the exact solver? As far as it was measured; nothing if it was not."""
    told = []
    for reading, judged in game.items():
        rows = {(row["tre"], row["against"], row["runs"]): row for row in judged["correlations"]}
        exact, legacy = (rows.get((kind, "generalisation error", "all runs")) for kind in ("exact", "legacy"))
        if not exact or not legacy or exact["low"] is None or legacy["low"] is None:
            continue
        if exact["low"] > 0:
            verdict = "survives the exact solver"
        elif exact["high"] <= 0:
            verdict = "is turned round by the exact solver"
        elif legacy["low"] > 0:
            verdict = "does not survive the exact solver"
        else:
            verdict = "cannot be told from none, neither by the exact solver nor as published"
        same = rows["exact", "generalisation error", "all runs"]["given_information"]
        beyond = "" if same["value"] is None else f"; {_range(same)} among languages that say equally much"
        told.append(
            f"{reading}, {judged['pairs']} pairs: the correlation of TRE with generalisation error {verdict}: "
            f"r = {_range(exact)}, as published r = {_range(legacy)}{beyond}"
        )
    return ". ".join(told) + "." if told else ""


def _range(found: Mapping[str, Any]) -> str:
    return f"{found['value']:.2f} [{found['low']:.2f}, {found['high']:.2f}]"


def _cell(plan: Plan, place: str, row: str, column: str, found: Mapping[str, Any], runs: int) -> Cell:
    """A correlation as a cell: its value, and its interval as low and high."""
    numbers = {name: None if found[name] is None else round(found[name], 3) for name in ("value", "low", "high")}
    printed = None if "normalised" in row else PRINTED.get((place, column))
    made = plan.cell(place, row, column, printed, [], measured=numbers["value"], runs=runs)
    return {
        **made,
        "low": numbers["low"],
        "high": numbers["high"],
        "command": f"{made['command']} --experiment {place}",
    }


def _printed(plan: Plan, measured: list[Cell]) -> list[Cell]:
    """A cell for each printed number that is still to be measured."""
    rows = {"dynamics": "exact", "compounds": "CBOW, exact", "game": "code, exact"}
    places = [
        (place, "network" if column == "validation accuracy" else rows[place], column) for place, column in PRINTED
    ]
    known = {(cell["where"], cell["row"], cell["column"]) for cell in measured}
    return [plan.cell(*place, PRINTED[place[0], place[2]], []) for place in places if place not in known]


# -- section 4 ------------------------------------------------------------------------------------------------------


def _dynamics(plan: Plan, allowed: bool) -> tuple[dict[str, Any], list[Cell]]:
    folder = plan.home / "dynamics"
    if not allowed and not folder.exists():
        return {}, []
    opened = dynamics.dynamics_folder(folder, settings(plan.budget)[1])
    if allowed:
        dynamics.learn(opened, say=plan.say)
    judged = dynamics.judge(opened)
    if not judged["runs"]:
        return {}, []
    figures.draw_dynamics(plan.home / "dynamics.svg", judged["curves"])
    accuracy = plan.cell("dynamics", "network", "validation accuracy", PRINTED["dynamics", "validation accuracy"],
                         [100 * value for value in judged["accuracies"]])  # fmt: skip
    cells = [accuracy]
    for row in judged["correlations"]:
        column = f"r with {INFORMATION[row['information']]}, {row['epochs']}"
        cells.append(_cell(plan, "dynamics", SOLVERS[row["tre"]], column, row, judged["runs"]))
    return {key: value for key, value in judged.items() if key != "curves"}, cells


# -- section 5 ------------------------------------------------------------------------------------------------------


def _compounds(plan: Plan, allowed: bool) -> tuple[dict[str, Any], list[Cell]]:
    data = Path(os.environ.get("POMONA_DATA", "../shared/data")) / "compounds"
    folder = plan.home / "compounds"
    if not allowed and not folder.exists():
        return {}, []
    if not (data / "reddy.txt").is_file():
        plan.say(f"compounds: there is no {data / 'reddy.txt'}; set POMONA_DATA to the folder that holds compounds/")
        return {}, []
    opened = Folder.open(folder, {"experiment": "compounds"})
    sources = {path.name: path.stat().st_size for path in sorted(data.iterdir())}
    judged: dict[str, Any] = opened.read("judged.json", {})
    if allowed and (not judged or opened.read("sources.json", {}) != sources):
        judged = _judge_compounds(data, plan)
        opened.write("judged.json", judged)
        opened.write("sources.json", sources)
    if not judged:
        return {}, []
    figures.draw_compounds(plan.home / "compounds.svg", judged)
    cells = []
    for source, found in judged.items():
        for kind in ("exact", "legacy"):
            row = f"{source}, {SOLVERS[kind]}"
            cells.append(_cell(plan, "compounds", row, "Spearman with judgement", found[kind], found["compounds"]))
        if found["given frequency"] is not None:
            row, column = f"{source}, {SOLVERS['exact']}", "Spearman with judgement, given the rarer word's frequency"
            cells.append(_cell(plan, "compounds", row, column, found["given frequency"], found["compounds"]))
    return judged, cells


def _judge_compounds(data: Path, plan: Plan) -> dict[str, Any]:
    """Every source of vectors that is there; the encoder if nothing else is."""
    listed = compounds.read_reddy(data / "reddy.txt")
    names = compounds.wanted(listed)
    frequencies: Mapping[str, float] | None = compounds.packaged_frequencies(names)
    if (data / "frequencies.tsv").is_file():
        frequencies = compounds.read_frequencies(data / "frequencies.tsv")
    judged = {}
    for name in ("vectors.vec", "vectors.bin"):
        if (data / name).is_file():
            plan.say(f"compounds: vectors of {data / name}")
            judged[name] = compounds.judge(listed, compounds.vectors_from_file(data / name, names), frequencies)
    if (data / "corpus.txt").is_file():
        plan.say(f"compounds: CBOW over {data / 'corpus.txt'}")
        vectors, counts = compounds.vectors_from_text(data / "corpus.txt", listed)
        judged["CBOW"] = compounds.judge(listed, vectors, frequencies or counts)
    if not judged:
        plan.say("compounds: vectors of the sentence encoder")
        try:
            layers = compounds.vectors_from_encoder(listed)
        except SpecError as error:
            plan.say(f"compounds: {error}")
            return {}
        judged = {f"MiniLM {name}": compounds.judge(listed, vectors, frequencies) for name, vectors in layers.items()}
    return judged


# -- sections 6 and 7 -----------------------------------------------------------------------------------------------


def _games(plan: Plan) -> dict[str, Folder]:
    """The folders of both readings, as far as they have been begun."""
    made = {}
    for name, (game, pairs) in settings(plan.budget)[0].items():
        if (plan.home / f"game-{name}").exists():
            made[name] = games.games_folder(plan.home / f"game-{name}", game, pairs=pairs)
    return made


def _game(plan: Plan, allowed: bool) -> tuple[dict[str, Any], list[Cell]]:
    if allowed:
        for name, (game, pairs) in settings(plan.budget)[0].items():
            folder = games.games_folder(plan.home / f"game-{name}", game, pairs=pairs)
            games.play(folder, say=plan.say)
            games.measure(folder, say=plan.say)
    judged, cells, readings = {}, [], {}
    for name, folder in _games(plan).items():
        scores = folder.read("scores.json", [])
        if not scores:
            continue
        played = folder.read("languages.json", {})
        readings[name] = scores
        judged[name] = {
            **games.judge(scores),
            "figure 6": games.mined(scores, played["pairs"], played["referents"]),
            "training cpu seconds": played["cpu_seconds"],
            "exact TRE cpu seconds": round(sum(score["exact_seconds"] for score in scores), 1),
            "scores": scores,
            "messages": [" ".join(row["messages"]) for row in played["pairs"]],
        }
        for row in judged[name]["correlations"]:
            column = f"r with {row['against']}, {row['runs']}"
            cells.append(_cell(plan, "game", f"{name}, {SOLVERS[row['tre']]}", column, row, row["items"]))
    if readings:
        figures.draw_games(plan.home / "game.svg", readings)
    return judged, cells


def _similarity(plan: Plan, allowed: bool) -> tuple[dict[str, Any], list[Cell]]:
    judged: dict[str, Any] = {}
    readings = {name: scores for name, folder in _games(plan).items() if (scores := folder.read("scores.json", []))}
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

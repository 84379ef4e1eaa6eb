"""Section 7: a hundred reference games are played, and the languages that emerge are measured.

    folder = games_folder("runs/tre_2019/cpu/game-code", READINGS["code"], seed=0, pairs=100)
    play(folder)                # trains the pairs that are missing; resumes after an interruption
    scores = measure(folder)    # TRE of every language, exact and as published
    judge(scores)               # correlations with generalisation

The folder keeps `languages.json` (each pair's messages, rewards and training referents) and `scores.json` (the
measurements of each language); during training also `state.safetensors`.
"""

from __future__ import annotations

import dataclasses
import re
import time
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from pomona.base.errors import FormatError, MeasureError, RunError
from pomona.base.registry import validated
from pomona.base.shapes import COUNT, NUMBER, TEXT, TRUTH, Kind, Maybe, check
from pomona.papers.tre_2019.agents import AgentPairs
from pomona.papers.tre_2019.correlations import correlate, gap
from pomona.papers.tre_2019.folders import Folder, Say
from pomona.papers.tre_2019.game_rules import REFERENTS, Game, Languages
from pomona.representations.disentanglement import posdis
from pomona.representations.edit_distance import check_proposition_1
from pomona.representations.topographic import topographic_similarity
from pomona.representations.tre import ReconstructionWarning, tre
from pomona.representations.tre.legacy import andreas2019
from pomona.training.checkpoints import fitting, read_torch, tensors_to_bytes
from pomona.training.run import environment

SAVE_EVERY = 60.0  # seconds
LEGACY_STEPS = 1000
SUCCESS = 0.5  # runs with a higher reward on held-out referents are the paper's "successful" ones
ATTRIBUTES = [[part, colour, other, tone] for (part, colour), (other, tone) in REFERENTS]
# Instead of maps A and B, give each primitive a free vector for each position. Every A and B is a special case, the fit
# is a linear programme, and the scores differ little, so shuffled languages are fitted in this way.
PLACED = [tuple(f"{position} {name}" for position, name in enumerate(row)) for row in ATTRIBUTES]
SHUFFLES = 200
_SPELT = re.compile(r"([a-z]|<[0-9]{2,6}>)+")
_LETTERS = Kind("a message", lambda value: isinstance(value, str) and bool(_SPELT.fullmatch(value)))
_LANGUAGE = {"pair": COUNT, "messages": [_LETTERS], "rewards": [NUMBER], "trained": [COUNT]}
_LANGUAGES = {"pairs": [_LANGUAGE], "referents": [TEXT], "cpu_seconds": NUMBER}
_SCORE = {
    **dict.fromkeys(("pair", "messages"), COUNT), "status": TEXT,
    **dict.fromkeys(("train", "test", "error", "exact", "bound", "legacy", "information", "exact_seconds"), NUMBER),
    **dict.fromkeys(("shuffled", "normalised", "topsim", "posdis"), Maybe(NUMBER)),
    "proposition": {
        "pairs": COUNT, "violations": COUNT,
        **dict.fromkeys(("primitives_within_one", "primitives_near_identity", "subadditive"), TRUTH),
    },
}  # fmt: skip


def games_folder(path: str | Path, game: Game, *, seed: int = 0, pairs: int = 100) -> Folder:
    return Folder.open(path, {"experiment": "game", "game": dataclasses.asdict(game), "seed": seed, "pairs": pairs})


# -- training -------------------------------------------------------------------------------------------------------


def play(folder: Folder, *, device: str = "cpu", say: Say = lambda text: None) -> None:
    """Train all pairs of a folder together and save their languages. A resumed run gives the same bits."""
    if read_languages(folder) is not None:
        return
    settings = folder.read("settings.json", None, {"seed": COUNT, "pairs": COUNT, "game": {}})
    game, seed, numbers = validated(Game, settings["game"], "game"), settings["seed"], range(settings["pairs"])
    with folder.locked():
        pairs = AgentPairs.fresh(game, seed, numbers, device=device)
        state = folder.path / "state.safetensors"
        seconds = 0.0
        if state.exists():
            seconds = restore(pairs, state)
            say(f"{folder.path}: resuming after step {pairs.done} of {game.steps}")
        saved, started = time.monotonic(), time.process_time()
        while pairs.done < game.steps:
            reward = pairs.step()
            if pairs.done % 10 == 0:
                say(f"{folder.path}: step {pairs.done} of {game.steps}, mean reward {float(reward.mean()):.3f}")
            if time.monotonic() - saved > SAVE_EVERY:
                save(pairs, folder, seconds + time.process_time() - started)
                saved = time.monotonic()
        _write_languages(folder, pairs.languages(), seconds + time.process_time() - started)
        state.unlink(missing_ok=True)


def save(pairs: AgentPairs, folder: Folder, seconds: float) -> None:
    """Save everything that the next step depends on, in one file."""
    arrays = {**pairs.weights, **pairs.memory, "average": pairs.average}
    about = {"done": pairs.done, "seconds": seconds}
    folder.write_bytes("state.safetensors", tensors_to_bytes(arrays, about))


def restore(pairs: AgentPairs, path: Path) -> float:
    """Load a saved state; returns the CPU seconds spent before it was saved."""
    arrays, about = read_torch(path)
    try:
        check(about, {"done": COUNT, "seconds": NUMBER})
    except FormatError as error:
        raise RunError(f"{path} cannot be read: {error}") from None
    with torch.no_grad():
        for name, array in {**pairs.weights, **pairs.memory}.items():
            array.copy_(fitting(arrays, name, array, path))
    pairs.average = fitting(arrays, "average", pairs.average, path).to(pairs.average.device)
    pairs.done = int(about["done"])
    return float(about["seconds"])


def _write_languages(folder: Folder, languages: Languages, seconds: float) -> None:
    rows = [
        {
            "pair": number,
            "messages": [spelt(message) for message in messages],
            "rewards": rewards.tolist(),
            "trained": np.flatnonzero(trained).tolist(),
        }
        for number, (messages, rewards, trained) in enumerate(
            zip(languages.messages, languages.rewards, languages.trained, strict=True)
        )
    ]
    referents = [f"(({a} {b}) ({c} {d}))" for (a, b), (c, d) in REFERENTS]
    about = {"environment": environment(threads=torch.get_num_threads()), "cpu_seconds": round(seconds, 1)}
    folder.write("languages.json", {**about, "referents": referents, "pairs": rows})


def spelt(message: npt.NDArray[np.int64]) -> str:
    """Symbols as the paper prints them: a, b, c, ...; those after z as numbers."""
    letters = [chr(97 + symbol) if symbol < 26 else f"<{symbol}>" for symbol in message.tolist()]
    return "".join(letters)


def read_languages(folder: Folder) -> dict[str, Any] | None:
    """The languages of a folder; None if they are not trained yet."""
    languages: dict[str, Any] | None = folder.read("languages.json", None, _LANGUAGES)
    for row in languages["pairs"] if languages else []:
        parts = (row["messages"], row["rewards"], languages["referents"] if languages else ())
        if {*map(len, parts)} != {len(REFERENTS)} or not set(row["trained"]) < set(range(len(REFERENTS))):
            raise RunError(f"{folder.path / 'languages.json'} is not what Pomona wrote: see pair {row['pair']}")
    return languages


def read_scores(folder: Folder) -> list[dict[str, Any]]:
    """What was measured of the languages of a folder so far."""
    scores: list[dict[str, Any]] = folder.read("scores.json", [], [_SCORE])
    return scores


# -- measuring ------------------------------------------------------------------------------------------------------


def measure(folder: Folder, *, say: Say = lambda text: None) -> list[dict[str, Any]]:
    """Measure every language; those measured before are kept."""
    languages = (read_languages(folder) or {"pairs": []})["pairs"]
    scores = read_scores(folder)
    with folder.locked():
        for row in languages[len(scores) :]:
            started = time.process_time()
            score = scores_of(row)
            scores.append({**score, "cpu_seconds": round(time.process_time() - started, 2)})
            folder.write("scores.json", scores)
            say(
                f"{folder.path}: language {score['pair']}: train {score['train']:.2f}, test {score['test']:.2f}, "
                f"TRE {score['exact']:.3f} (at least {score['bound']:.3f}), as published {score['legacy']:.3f}"
            )
    return scores


def one_hot(messages: list[str]) -> npt.NDArray[np.float64]:
    """Messages as TRE takes them, [48, positions, symbols + 2]."""
    if len(set(map(len, messages))) != 1 or not set("".join(messages)) <= set("abcdefghijklmnopqr"):
        raise MeasureError("TRE of a language is measured with messages of one length, in the letters a to r")
    symbols = np.array([[ord(letter) - 97 for letter in message] for message in messages])
    return np.asarray(np.eye(18)[symbols])


def scores_of(row: Mapping[str, Any]) -> dict[str, Any]:
    """The rewards of one language, its TRE by both solvers, its normalised TRE, and other measures."""
    rewards, trained = np.array(row["rewards"]), np.zeros(len(REFERENTS), bool)
    trained[row["trained"]] = True
    train, test = float(rewards[trained].mean()), float(rewards[~trained].mean())
    messages = one_hot(row["messages"])
    kinds, counts = np.unique(row["messages"], return_counts=True)
    share = counts / counts.sum()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ReconstructionWarning)
        clock = time.process_time()
        fit = tre(messages, list(REFERENTS), compose="position", distance="l1")
        exact_seconds = time.process_time() - clock
        legacy = andreas2019(
            messages, list(REFERENTS), "l1", "position", steps=LEGACY_STEPS, seed=int(row["pair"])
        ).score
        placed = tre(messages.reshape(len(messages), -1), PLACED, distance="l1").normalized("shuffle", SHUFFLES)
    return {
        "pair": row["pair"],
        "train": train,
        "test": test,
        "error": train - test,
        "exact": fit.score,
        "bound": fit.bound.lower_bound,
        "status": fit.bound.status,
        "legacy": legacy,
        "shuffled": _number(placed.baseline_score),
        "normalised": _number(1.0 - placed.value),  # TRE as a share of the score with shuffled meanings: 0 is perfect
        "topsim": _number(topographic_similarity(ATTRIBUTES, row["messages"], "hamming", "hamming").value),
        "posdis": _number(posdis(ATTRIBUTES, row["messages"]).value),
        "messages": len(kinds),
        "information": float(-(share * np.log(share)).sum()) + 0.0,
        "proposition": dataclasses.asdict(check_proposition_1(fit, rescale=True)),
        "exact_seconds": round(exact_seconds, 2),
    }


def _number(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


# -- correlations ---------------------------------------------------------------------------------------------------

AGAINST = {"generalisation error": "error", "test reward": "test", "train reward": "train"}


def judge(scores: list[dict[str, Any]]) -> dict[str, Any]:
    """Correlate each kind of TRE with generalisation and reward, over all runs and over the successful ones."""
    columns = {name: _column(scores, name) for name in ("exact", "legacy", "normalised", *AGAINST.values())}
    columns["information"] = _column(scores, "information")
    won = columns["test"] > SUCCESS
    results: dict[str, Any] = {"pairs": len(scores), "successful": int(won.sum()), "correlations": [], "gaps": []}
    for runs, chosen in (("all runs", np.ones(len(scores), bool)), ("successful runs", won)):
        for label, against in AGAINST.items():
            here = {name: column[chosen] for name, column in columns.items()}
            for kind in ("exact", "legacy", "normalised"):
                plain = correlate(here[kind], here[against])
                same = correlate(here[kind], here[against], given=here["information"])
                about = {"tre": kind, "against": label, "runs": runs}
                results["correlations"].append({**about, **plain.plain, "given_information": same.plain})
            difference = gap(here["exact"], here["legacy"], here[against])
            results["gaps"].append({"against": label, "runs": runs, **difference.plain})
    over = columns["legacy"] / np.where(columns["exact"] > 1e-9, columns["exact"], np.nan) - 1
    results["overstatement"] = (
        {"median": float(np.nanmedian(over)), "highest": float(np.nanmax(over))} if scores else {}
    )
    results["above_zero"] = int((columns["legacy"] > 4.0).sum())  # predicting zero costs exactly 4.0
    results["optimal"] = sum(row["status"] == "optimal" for row in scores)
    results["widest_bracket"] = max((row["exact"] - row["bound"] for row in scores), default=0.0)
    known = {name: column[np.isfinite(column)] for name, column in columns.items()}
    results["means"] = {name: float(column.mean()) for name, column in known.items() if len(column)}
    return results


def judged(folder: Folder, scores: list[dict[str, Any]]) -> dict[str, Any]:
    """All that is said of the languages of a folder."""
    played = read_languages(folder)
    numbered = {row["pair"] for row in scores} == set(range(len(scores)))
    if played is None or len(played["pairs"]) < len(scores) or not numbered:
        raise RunError(f"{folder.path}: scores.json and languages.json do not belong together; remove scores.json")
    return {
        **judge(scores),
        "figure 6": mined(scores, played["pairs"], played["referents"]),
        "training cpu seconds": played["cpu_seconds"],
        "exact TRE cpu seconds": round(sum(score["exact_seconds"] for score in scores), 1),
        "scores": scores,
        "messages": [" ".join(row["messages"]) for row in played["pairs"]],
    }


def mined(scores: list[dict[str, Any]], languages: list[dict[str, Any]], referents: list[str]) -> list[dict[str, Any]]:
    """Figure 6: among the better half of the successful runs by generalisation, those of lowest and highest TRE."""
    won = sorted((row for row in scores if row["test"] > SUCCESS), key=lambda row: (row["error"], row["pair"]))
    good = won[: max(2, (len(won) + 1) // 2)]
    if len(good) < 2:
        return []
    ends = (min(good, key=lambda row: row["exact"]), max(good, key=lambda row: row["exact"]))
    return [
        {
            "level": level,
            **{name: row[name] for name in ("pair", "train", "test", "exact", "bound", "legacy", "normalised")},
            "messages": dict(zip(referents, languages[row["pair"]]["messages"], strict=True)),
        }
        for level, row in zip(("low TRE", "high TRE"), ends, strict=True)
    ]


def _column(scores: list[dict[str, Any]], name: str) -> Any:
    return np.array([np.nan if row[name] is None else row[name] for row in scores], np.float64)

"""A hundred reference games: trained, their languages measured, and the paper's question asked of both solvers.

    folder = games_folder("runs/tre_2019/cpu/game-code", READINGS["code"], seed=0, pairs=100)
    play(folder)                # trains what is missing; killed, it goes on
    measure(folder)             # TRE of every language, exact and as published
    judge(folder)               # correlations with generalisation, the languages of Figure 6

The folder keeps `languages.json` (each pair's messages, rewards and training thirds) and `scores.json` (what was
measured of each language); while pairs train it also keeps `state.safetensors`.
"""

from __future__ import annotations

import dataclasses
import time
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from pomona.papers.tre_2019.agents import AgentPairs
from pomona.papers.tre_2019.correlations import correlate, gap
from pomona.papers.tre_2019.folders import Folder, Say
from pomona.papers.tre_2019.game_rules import REFERENTS, Game, Languages
from pomona.representations.disentanglement import posdis
from pomona.representations.edit_distance import check_proposition_1
from pomona.representations.topographic import topographic_similarity
from pomona.representations.tre import ReconstructionWarning, tre
from pomona.representations.tre.legacy import andreas2019
from pomona.training.checkpoints import read_torch, tensors_to_bytes
from pomona.training.run import environment

SAVE_EVERY = 60.0  # seconds
LEGACY_STEPS = 1000
SUCCESS = 0.5  # of the reward on held-out referents: the paper's "successful" runs
ATTRIBUTES = [[part, colour, other, tone] for (part, colour), (other, tone) in REFERENTS]
# Without A and B, a primitive in each place has a vector of its own. Every A and B is a special case of that, the fit
# is a linear programme, and the two differ little; so this is what shuffled languages are fitted with.
PLACED = [tuple(f"{place} {name}" for place, name in enumerate(row)) for row in ATTRIBUTES]
SHUFFLES = 200


def games_folder(path: str | Path, game: Game, *, seed: int = 0, pairs: int = 100) -> Folder:
    return Folder.open(path, {"experiment": "game", "game": dataclasses.asdict(game), "seed": seed, "pairs": pairs})


# -- training -------------------------------------------------------------------------------------------------------


def play(folder: Folder, *, device: str = "cpu", say: Say = lambda text: None) -> None:
    """Train the pairs of a folder, all at once, and write their languages down. Resumes to the same bits."""
    if folder.read("languages.json", None) is not None:
        return
    settings = folder.read("settings.json", {})
    game, seed, numbers = Game(**settings["game"]), settings["seed"], range(settings["pairs"])
    with folder.locked():
        pairs = AgentPairs.fresh(game, seed, numbers, device=device)
        state = folder.path / "state.safetensors"
        seconds = 0.0
        if state.exists():
            seconds = restore(pairs, state)
            say(f"{folder.path}: going on after step {pairs.done} of {game.steps}")
        saved, begun = time.monotonic(), time.process_time()
        while pairs.done < game.steps:
            reward = pairs.step()
            if pairs.done % 10 == 0:
                say(f"{folder.path}: step {pairs.done} of {game.steps}, mean reward {float(reward.mean()):.3f}")
            if time.monotonic() - saved > SAVE_EVERY:
                keep(pairs, folder, seconds + time.process_time() - begun)
                saved = time.monotonic()
        _write_languages(folder, pairs.languages(), seconds + time.process_time() - begun)
        state.unlink(missing_ok=True)


def keep(pairs: AgentPairs, folder: Folder, seconds: float) -> None:
    """All that the next step depends on, in one file."""
    arrays = {**pairs.weights, **pairs.memory, "average": pairs.average}
    about = {"done": pairs.done, "seconds": seconds}
    folder.write_bytes("state.safetensors", tensors_to_bytes(arrays, about))


def restore(pairs: AgentPairs, path: Path) -> float:
    """Go back to a kept state; the seconds that it had cost."""
    arrays, about = read_torch(path)
    with torch.no_grad():
        for name, array in {**pairs.weights, **pairs.memory}.items():
            array.copy_(arrays[name])
    pairs.average = arrays["average"].to(pairs.average.device)
    pairs.done = int(about["done"])
    return float(about["seconds"])


def _write_languages(folder: Folder, found: Languages, seconds: float) -> None:
    rows = [
        {
            "pair": number,
            "messages": [spelt(message) for message in messages],
            "rewards": rewards.tolist(),
            "trained": np.flatnonzero(trained).tolist(),
        }
        for number, (messages, rewards, trained) in enumerate(
            zip(found.messages, found.rewards, found.trained, strict=True)
        )
    ]
    referents = [f"(({a} {b}) ({c} {d}))" for (a, b), (c, d) in REFERENTS]
    about = {"environment": environment(threads=torch.get_num_threads()), "cpu_seconds": round(seconds, 1)}
    folder.write("languages.json", {**about, "referents": referents, "pairs": rows})


def spelt(message: npt.NDArray[np.int64]) -> str:
    """Symbols as the paper prints them: a, b, c, ...; those after z by number."""
    letters = [chr(97 + symbol) if symbol < 26 else f"<{symbol}>" for symbol in message.tolist()]
    return "".join(letters)


# -- measuring ------------------------------------------------------------------------------------------------------


def measure(folder: Folder, *, say: Say = lambda text: None) -> list[dict[str, Any]]:
    """Everything measured of every language, one by one; what was measured before is not measured again."""
    languages = folder.read("languages.json", {"pairs": []})["pairs"]
    scores: list[dict[str, Any]] = folder.read("scores.json", [])
    with folder.locked():
        for row in languages[len(scores) :]:
            begun = time.process_time()
            found = scores_of(row)
            scores.append({**found, "cpu_seconds": round(time.process_time() - begun, 2)})
            folder.write("scores.json", scores)
            say(
                f"{folder.path}: language {found['pair']}: train {found['train']:.2f}, test {found['test']:.2f}, "
                f"TRE {found['exact']:.3f} (at least {found['bound']:.3f}), as published {found['legacy']:.3f}"
            )
    return scores


def one_hot(messages: list[str]) -> npt.NDArray[np.float64]:
    """[48, places, symbols + 2], as TRE is given messages."""
    symbols = np.array([[ord(letter) - 97 for letter in message] for message in messages])
    return np.asarray(np.eye(18)[symbols])


def scores_of(row: Mapping[str, Any]) -> dict[str, Any]:
    """Rewards of one language, its TRE by both solvers, its normalised TRE, and the usual companions."""
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
    certificate = fit.bound
    return {
        "pair": row["pair"],
        "train": train,
        "test": test,
        "error": train - test,
        "exact": fit.score,
        "bound": certificate.lower_bound,
        "status": certificate.status,
        "legacy": legacy,
        "shuffled": _number(placed.baseline_score),
        "normalised": _number(1.0 - placed.value),  # TRE as a share of what shuffled meanings give: 0 is perfect
        "topsim": _number(topographic_similarity(ATTRIBUTES, row["messages"], "hamming", "hamming").value),
        "posdis": _number(posdis(ATTRIBUTES, row["messages"]).value),
        "messages": len(kinds),
        "information": float(-(share * np.log(share)).sum()) + 0.0,
        "proposition": dataclasses.asdict(check_proposition_1(fit, rescale=True)),
        "exact_seconds": round(exact_seconds, 2),
    }


def _number(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


# -- judging --------------------------------------------------------------------------------------------------------

AGAINST = {"generalisation error": "error", "test reward": "test", "train reward": "train"}


def judge(scores: list[dict[str, Any]]) -> dict[str, Any]:
    """Correlations of each kind of TRE with generalisation and reward, for all runs and for the successful ones."""
    columns = {name: _column(scores, name) for name in ("exact", "legacy", "normalised", *AGAINST.values())}
    columns["information"] = _column(scores, "information")
    won = columns["test"] > SUCCESS
    found: dict[str, Any] = {"pairs": len(scores), "successful": int(won.sum()), "correlations": [], "gaps": []}
    for runs, chosen in (("all runs", np.ones(len(scores), bool)), ("successful runs", won)):
        for label, against in AGAINST.items():
            here = {name: column[chosen] for name, column in columns.items()}
            for kind in ("exact", "legacy", "normalised"):
                plain = correlate(here[kind], here[against])
                same = correlate(here[kind], here[against], given=here["information"])
                about = {"tre": kind, "against": label, "runs": runs}
                found["correlations"].append({**about, **plain.plain, "given_information": same.plain})
            difference = gap(here["exact"], here["legacy"], here[against])
            found["gaps"].append({"against": label, "runs": runs, **difference.plain})
    over = columns["legacy"] / np.where(columns["exact"] > 1e-9, columns["exact"], np.nan) - 1
    found["overstatement"] = {"median": float(np.nanmedian(over)), "highest": float(np.nanmax(over))} if scores else {}
    found["above_zero"] = int((columns["legacy"] > 4.0).sum())  # predicting nothing at all costs 4.0
    found["optimal"] = sum(row["status"] == "optimal" for row in scores)
    found["widest_bracket"] = max((row["exact"] - row["bound"] for row in scores), default=0.0)
    known = {name: column[np.isfinite(column)] for name, column in columns.items()}
    found["means"] = {name: float(column.mean()) for name, column in known.items() if len(column)}
    return found


def mined(scores: list[dict[str, Any]], languages: list[dict[str, Any]], referents: list[str]) -> list[dict[str, Any]]:
    """Figure 6: of the successful runs that generalise best (the better half), those of lowest and of highest TRE."""
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

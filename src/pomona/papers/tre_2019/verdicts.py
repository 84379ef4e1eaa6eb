"""What the TRE paper claims, and how our correlations decide each claim."""

from __future__ import annotations

from pomona.papers.claims import NOT_REPRODUCED, REPRODUCED, UNDECIDED, Claim, Finding, Judge, Measured, sentence, shown

STAND_IN = "the pictures are a stand-in until the paper's own are put into the data folder"


def _correlation(where: str, row: str, column: str, note: str = "", *, stand_in: bool = False) -> Judge:
    """A correlation is reproduced if its 95 % interval holds the printed one. With pictures that are not the paper's,
    a different number decides nothing."""

    def judge(measured: Measured) -> Finding:
        cell = measured.cell(where, row, column)
        if cell is None:
            return Finding("", "not run", UNDECIDED, "It has not been run.")
        printed, low, high = cell["printed"], cell["low"], cell["high"]
        inside = low is not None and low <= printed <= high
        verdict = REPRODUCED if inside else UNDECIDED if stand_in else NOT_REPRODUCED
        ours = shown(cell["measured"]) + ("" if low is None else f" [{low:.2f}, {high:.2f}]")
        holds = f"The interval {'holds' if inside else 'does not hold'} the printed number"
        return Finding(shown(printed), ours, verdict, sentence(holds, note, STAND_IN if stand_in else ""))

    return judge


def _of_its_own(measured: Measured) -> Finding:
    """The paper's conclusion: it is compositionality that goes with generalisation."""
    same = measured.results.get("game", {}).get("code", {})
    rows = [row for row in same.get("correlations", []) if (row["tre"], row["runs"]) == ("exact", "all runs")]
    given = [row["given_information"] for row in rows if row["against"] == "generalisation error"]
    if not given or given[0]["value"] is None:
        return Finding("a conclusion, no number", "not run", UNDECIDED, "It has not been run.")
    value, low, high = (given[0][name] for name in ("value", "low", "high"))
    ours = f"r = {value:.2f} [{low:.2f}, {high:.2f}] among languages that say equally much"
    verdict = REPRODUCED if low > 0 else NOT_REPRODUCED
    reason = "A language that says little has a low TRE, no reward and no generalisation error."
    return Finding("a conclusion, no number", ours, verdict, reason)


def _bounded(measured: Measured) -> Finding:
    """Proposition 1 bounds the distance of representations by the edit distance of their derivations."""
    column = "pairs within Proposition 1, per cent"
    cells = [measured.cell("similarity", row, column) for row in ("code, exact", "classifiers, l2")]
    known = [cell for cell in cells if cell is not None]
    if len(known) < len(cells):
        return Finding("a proof", "not run", UNDECIDED, "Not all representations have been measured.")
    lowest = min(cell["low"] for cell in known)
    verdict = REPRODUCED if lowest == 100 else NOT_REPRODUCED
    reason = "Languages of the game, and classifiers under l2."
    return Finding("a proof", f"{shown(lowest)} % of pairs", verdict, reason)


_GAME = "as released, exact solver"
CLAIMS = (
    Claim(
        "TRE and the entropy of theta rise together before the best epoch", "dynamics",
        _correlation("dynamics", "exact", "r with entropy, before the best epoch", stand_in=True),
    ),
    Claim(
        "they fall together from the epoch of most entropy on", "dynamics",
        _correlation("dynamics", "exact", "r with entropy, from most entropy to the best", stand_in=True),
    ),
    Claim(
        "TRE falls as people find a compound more literal", "compounds",
        _correlation(
            "compounds", "CBOW, exact", "Spearman with judgement",
            "vectors of another corpus than the paper's; given the compound's own count less remains",
        ),
    ),
    Claim(
        "TRE goes with generalisation error", "game",
        _correlation("game", "code, exact", "r with generalisation error, all runs", _GAME),
    ),
    Claim(
        "TRE goes with reward", "game", _correlation("game", "code, exact", "r with test reward, all runs", _GAME),
    ),
    Claim(
        "the same among pairs that succeed, generalisation error", "game",
        _correlation("game", "code, exact", "r with generalisation error, successful runs", _GAME),
    ),
    Claim(
        "the same among pairs that succeed, reward", "game",
        _correlation("game", "code, exact", "r with test reward, successful runs", _GAME),
    ),
    Claim("so compositionality goes with generalisation", "game", _of_its_own),
    Claim("representations of similar derivations are close (Proposition 1)", "similarity", _bounded),
)  # fmt: skip

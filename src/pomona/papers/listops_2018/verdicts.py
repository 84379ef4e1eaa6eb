"""What the ListOps paper claims, and how our numbers decide each claim."""

from __future__ import annotations

from pomona.papers.claims import (
    NOT_REPRODUCED,
    REPRODUCED,
    UNDECIDED,
    Claim,
    Finding,
    Judge,
    Measured,
    doubts_about,
    number,
    sentence,
    shown,
    with_interval,
)

LATENT = ("RL-SPINN 128D", "ST-Gumbel 128D")
CONSTANTS = (
    *(("Table 3", "Ground-Truth Trees", column) for column in ("F1 left", "F1 right", "depth")),
    *(("Table 3", "Random Trees", column) for column in ("F1 left", "F1 gold", "depth")),
    ("Table 2", "Random Trees", "self F1"),
)
CLOSE = 10.0  # an F1 that is at most this far above that of random trees is no agreement
ROUNDING = 0.1  # constants of the data are printed with one digit


def _below_the_lstm(measured: Measured) -> Finding:
    """Both models that learn their trees are below the LSTM, on the means of their runs."""
    printed = "LSTM 71.5, RL-SPINN 60.7, ST-Gumbel 57.6 on the mean"
    cells = [measured.cell("Table 2", row, "mean accuracy") for row in ("LSTM 128D", *LATENT)]
    known = [cell for cell in cells if cell is not None]
    if len(known) < len(cells):
        return Finding(printed, "not run", UNDECIDED, "Not all three models have been run.")
    lstm, *latent = (cell["measured"] for cell in known)
    ours = ", ".join(f"{cell['row'].split()[0]} {shown(cell['measured'])}" for cell in known)
    overlap = "; the weakest LSTM is below the best RL-SPINN" if known[0]["low"] < known[1]["high"] else ""
    verdict = REPRODUCED if max(latent) < lstm else NOT_REPRODUCED
    return Finding(printed, ours, verdict, f"Means of {known[0]['runs']} runs each{overlap}.")


def _no_agreement(row: str) -> Judge:
    """Two runs of a model agree no better than random trees do."""

    def judge(measured: Measured) -> Finding:
        cell, random = (measured.cell("Table 2", name, "self F1") for name in (row, "Random Trees"))
        if cell is None or random is None:
            return Finding("", "not run", UNDECIDED, "It has not been run.")
        above = cell["measured"] - random["measured"]
        doubts = doubts_about(cell)
        verdict = REPRODUCED if above <= CLOSE else UNDECIDED if doubts else NOT_REPRODUCED
        reason = f"{shown(above)} above random trees; at most {CLOSE:g} counts as no agreement"
        return Finding(shown(cell["printed"]), with_interval(cell), verdict, sentence(reason, *doubts))

    return judge


def _constants(measured: Measured) -> Finding:
    """The constants of gold and random trees, which need no model."""
    cells = [measured.cell(*place) for place in CONSTANTS]
    known = [cell for cell in cells if cell is not None]
    far = [cell for cell in known if abs(cell["measured"] - cell["printed"]) > ROUNDING]
    if len(known) < len(cells):
        return Finding("", "not measured", UNDECIDED, "They have not been measured.")
    printed, ours = (", ".join(shown(cell[key]) for cell in known) for key in ("printed", "measured"))
    reason = "Exact expectations, no tree is drawn; the paper's 30.1 and 5.2 are means of drawn trees."
    return Finding(printed, ours, NOT_REPRODUCED if far else REPRODUCED, reason)


def _more_data(measured: Measured) -> Finding:
    """RL-SPINN and ST-Gumbel stay below the LSTM however many examples there are (Figure 4): by more than runs of the
    LSTM with other seeds differ, since there may be one run of each."""
    printed, rows = "a plot: RL-SPINN and ST-Gumbel do not catch up with the LSTM", ("LSTM 128D", *LATENT)
    cells = [measured.cell("Figure 4", row, "accuracy from 990k") for row in rows]
    known = [cell for cell in cells if cell is not None]
    if len(known) < len(cells):
        return Finding(printed, "not run", UNDECIDED, "Not every model has been trained on 990,000 examples.")
    lstm, *latent = (cell["measured"] for cell in known)
    doubts = sorted({doubt for cell in known for doubt in doubts_about(cell)})
    seeds = measured.cell("Figure 4", rows[0], "accuracy from 90k")
    spread = (seeds and seeds["deviation"]) or 0.0
    gap = lstm - max(latent)
    if abs(gap) <= spread:
        doubts.append(f"LSTM and the best of the others are {shown(abs(gap))} apart, runs of the LSTM {shown(spread)}")
    verdict = UNDECIDED if doubts else REPRODUCED if gap > 0 else NOT_REPRODUCED
    ours = ", ".join(f"{cell['row'].split()[0]} {shown(cell['measured'])}" for cell in known)
    return Finding(printed, ours, verdict, sentence("From 990,000 examples, one run each", *doubts))


def _accuracy(row: str, says: str, *, higher_counts: bool = False) -> Claim:
    judge = number("Table 1", row, "accuracy", within=3.0, higher_counts=higher_counts)
    return Claim(says, "Table 1", judge, row)


def _mean(row: str, says: str, note: str = "") -> Claim:
    return Claim(says, "Table 2", number("Table 2", row, "mean accuracy", within=3.0, note=note), row)


def _gold(row: str, says: str) -> Claim:
    note = "the run that dev chose; runs differ widely"
    return Claim(says, "Table 3", number("Table 3", row, "F1 gold", within=5.0, note=note), row)


CLAIMS = (
    _accuracy("TreeLSTM 128D", "a TreeLSTM that is given the trees solves the task", higher_counts=True),
    _accuracy("TreeLSTM 48D", "a TreeLSTM of 48D solves it too", higher_counts=True),
    _mean("LSTM 128D", "an LSTM does not solve it"),
    _accuracy("LSTM 1024D", "the accuracy of an LSTM of 1024D"),
    Claim("models that learn their trees do worse than the LSTM", "Table 2", _below_the_lstm),
    _mean("RL-SPINN 128D", "RL-SPINN's accuracy"),
    _mean("ST-Gumbel 128D", "ST-Gumbel's accuracy"),
    _gold("RL-SPINN 128D", "RL-SPINN's best trees are far from the right ones"),
    _gold("ST-Gumbel 128D", "ST-Gumbel's best trees are far from the right ones"),
    Claim("two runs of RL-SPINN agree no better than random trees", "Table 2", _no_agreement(LATENT[0]), LATENT[0]),
    Claim("two runs of ST-Gumbel agree no better than random trees", "Table 2", _no_agreement(LATENT[1]), LATENT[1]),
    Claim("more training data does not help the models that learn trees", "Figure 4", _more_data),
    Claim("F1 and depth of gold and random trees", "Table 3", _constants),
)

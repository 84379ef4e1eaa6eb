"""The ORCHARD paper: its rows, what it printed, and how its trends are judged."""

from __future__ import annotations

import pytest

from pomona.papers.claims import Measured
from pomona.papers.orchard_2021 import brackets, paper
from pomona.papers.orchard_2021.recipes import recipes
from pomona.papers.orchard_2021.trends import Curve, trends
from pomona.papers.orchard_2021.verdicts import trained_out
from pomona.papers.reproduce import BUDGETS, reproduce
from pomona.training.checkpoints import model_of


@pytest.mark.parametrize("budget", BUDGETS)
def test_every_row_has_recipes_whose_models_can_be_built(budget):
    planned = recipes(budget)
    assert len(planned) == 12 + 6 + 4 + 6 + 12
    for some in planned.values():
        for recipe in some:
            model_of(recipe)
    if budget == "cpu":
        assert all(len(planned[row]) >= 2 for row in planned if row.split()[0] in ("LSTM", "Transformer", "Oracle"))
        assert {len(planned[f"LSTM hard {family}"]) for family in ("min-max", "first-last")} == {3}
        lstms = [recipe for row in planned for recipe in planned[row] if row.startswith("LSTM")]
        assert not any(recipe.settings["bidirectional"] for recipe in lstms)
        for row, some in planned.items():  # stages draw from a fixed set
            assert all(recipe.fresh != row.startswith("Stack") for recipe in some)


def test_the_printed_numbers_are_cells_of_their_figures():
    places = list(paper.points())
    assert len(places) == len(set(places))
    assert ("Figure 4", "LSTM hard min-max", 12, "first") in places
    assert ("Figure 5", "Transformer hard first-last", 12, "first") in places
    assert ("Figure 2", "Transformer easy min-max", 7, "both") in places
    assert not any(where == "Figure 4" and row.startswith("Transformer") for where, row, _, _ in places)


def curve(first, second, both, rows=400):
    """A run whose shares are the same at all depths, or fall from the one of a pair at depth 6 to the other at 12."""

    def right(value, depth):
        begin, end = value if isinstance(value, tuple) else (value, value)
        return rows * (begin + (end - begin) * max(0, depth - 6) / 6)

    by_nesting = {
        str(depth): {
            "rows": rows,
            "right": right(both, depth),
            "questions": [right(one, depth) for one in (first, second)],
        }
        for depth in paper.DEPTHS
    }
    return Curve((by_nesting, by_nesting))


def as_printed():
    """Curves that show all eight trends."""
    both = {
        "LSTM": {"easy": (0.97, 0.6), "medium": (0.93, 0.5), "hard": (0.89, 0.4)},
        "Transformer": {"easy": (0.97, 0.3), "medium": (0.98, 0.15), "hard": (0.95, 0.05)},
    }
    made = {}
    for row, model, difficulty, family in paper.rows():
        if model in both:
            begin, end = (share - 0.04 * (family == "min-max") for share in both[model][difficulty])
            made[row] = curve((1.0, 0.9 if model == "LSTM" else 0.5), (0.95, 0.3), (begin, end))
    return made


def test_trends_hold_where_the_curves_show_them():
    found = {trend["trend"]: trend for trend in trends(as_printed())}
    assert list(found) == [f"T{number}" for number in range(1, 9)]
    assert {trend["verdict"] for trend in found.values()} == {"holds"}
    assert found["T1"]["cases"][0]["interval"][0] > 0


def test_trends_fail_where_one_comparison_does_and_are_open_where_runs_are_missing():
    curves = as_printed()
    curves["LSTM hard min-max"] = curve(0.6, 0.6, 0.5)
    found = {trend["trend"]: trend["verdict"] for trend in trends(curves)}
    assert found["T1"] == found["T2"] == found["T7"] == found["T8"] == "fails"
    assert {trend["verdict"] for trend in trends({})} == {"open"}
    assert {case["verdict"] for trend in trends({}) for case in trend["cases"]} == {"not run"}


def test_one_run_gives_no_verdict_and_runs_that_differ_widen_the_interval():
    curves = as_printed()
    row = "LSTM hard min-max"
    good, bad = curve(0.9, 0.9, 0.9).runs[0], curve(0.9, 0.9, 0.75).runs[0]
    verdict = {}
    for name, runs in {"one": (good,), "two": (good, good), "apart": (good, bad)}.items():
        case = trends({**curves, row: Curve(runs)})[0]["cases"]
        verdict[name] = next(one["verdict"] for one in case if one["above"].startswith(row))
    assert verdict == {"one": "one run", "two": "yes", "apart": "open"}


def test_a_difference_that_the_examples_cannot_show_is_open():
    few = {row: curve(0.86, 0.5, 0.81, rows=30) for row in as_printed()}
    found = {trend["trend"]: trend["verdict"] for trend in trends(few)}
    assert found["T1"] == "open"


def test_smoke_trains_a_row_and_sets_it_beside_its_shortcuts(tmp_path):
    row = "Oracle hard min-max"
    found = reproduce("orchard_2021", budget="smoke", rows=[row], folder=tmp_path, out=tmp_path / "cells.json")
    cells = [cell for cell in found["cells"] if cell["row"] == row]
    assert len(cells) == 30
    assert all(
        cell["measured"] is not None and cell["interval"][0] <= cell["measured"] <= cell["interval"][1]
        for cell in cells
    )
    assert [run["row"] for run in found["runs"]] == [row]
    beside = found["shortcuts"]["hard/min-max"]
    assert beside["repeat the first answer"]["12"][0] is None
    assert 0 < beside["ceiling"]["12"][1] <= 100
    assert beside["by hand, top 6"]["6"][0] == 100
    assert set(found["runs"][0]["scores"]["effective_depth"]) == {"first", "second"}
    unknown = found["runs"][0]["scores"]["measures"]["unknown-copies"]
    assert unknown == {"value": None}  # it follows links and reads no arguments
    again = reproduce("orchard_2021", budget="smoke", rows=[row], folder=tmp_path, train_missing=False)
    assert [cell["measured"] for cell in again["cells"]] == [cell["measured"] for cell in found["cells"]]
    elsewhere = {"budget": "smoke", "folder": tmp_path / "none", "out": tmp_path / "cells.json", "train_missing": False}
    kept = reproduce("orchard_2021", **elsewhere)  # without the runs, all that was measured is still there
    for section in ("cells", "runs", "trends", "shortcuts"):
        assert kept[section] == found[section], section


def test_sets_of_open_brackets_differ_in_what_they_are_named_for():
    recipe = recipes("cpu")["LSTM hard first-last"][0]
    whole = brackets.corpus(recipe)
    parts = [whole[k * brackets.ROWS : (k + 1) * brackets.ROWS] for k in range(len(brackets.SETS))]
    lengths = {}
    for name, part in zip(brackets.SETS, parts, strict=True):
        opened = int("".join(letter for letter in name if letter.isdigit()))
        firsts = [text.split(" X ")[0].split() for text in part.texts]
        assert set(part.tree_nesting[:, 0]) == {opened}
        digit = 1 if name.startswith("after") else -2
        assert part.targets[:, 0].tolist() == [int(words[digit]) for words in firsts]  # the root alone decides
        lengths[name] = sum(map(len, firsts)) / len(firsts)
    assert lengths["before 13 open"] == lengths["after 13 open"] == pytest.approx(lengths["wide, 7 open"], rel=0.1)
    assert lengths["before 9 open"] == lengths["after 9 open"] == pytest.approx(lengths["wide, 6 open"], rel=0.1)
    seconds = {
        name: [text.split(" X ")[1] for text in part.texts] for name, part in zip(brackets.SETS, parts, strict=True)
    }
    assert all(texts == seconds["wide, 7 open"] for texts in seconds.values())


def run_record(row="LSTM hard first-last", dev=0.8, looks=(), epochs=40, seconds=100.0, schedule="cooldown"):
    settings = {"schedule": schedule, "epochs": epochs}
    return {"row": row, "dev": dev, "dev_curve": list(looks), "recipe": settings, "core_seconds": seconds}


def test_a_run_is_trained_out_if_it_is_solved_flat_at_full_rate_or_at_the_end_of_its_time():
    rising, flat = [0.02 * k for k in range(40)], [0.1, 0.4, 0.6, 0.7] + [0.71] * 36
    assert trained_out(run_record(dev=0.99, looks=rising))
    assert trained_out(run_record(looks=flat))
    assert not trained_out(run_record(looks=rising))
    assert trained_out(run_record(looks=rising, seconds=5_400.0))
    assert not trained_out(run_record(looks=flat, schedule="cosine"))  # whose rate falls all the time
    late = [0.7] * 28 + [0.9] * 12  # it rose only while the rate fell
    assert trained_out(run_record(looks=late))
    assert not trained_out(run_record(looks=flat[:20], epochs=20))  # too few looks


def judged_as(trend, records):
    results = {"cells": [{"row": row, "budget": "cpu", "measured": None} for row in as_printed()], "runs": records}
    claim = next(claim for claim in paper.Orchard2021.claims if claim.says.startswith(trend))
    return claim.judge(Measured({**results, "trends": trends(as_failing(trend))}))


def as_failing(trend):
    """All trends hold but T5: there the LSTM is ahead."""
    curves = as_printed()
    if trend == "T5":
        curves["LSTM hard first-last"] = curve(1.0, 1.0, 1.0)
    return curves


def test_a_claim_that_holds_is_decided_if_no_row_that_stands_below_could_still_rise():
    done = {row: run_record(row, dev=0.99) for row in as_printed()}
    rising = [0.02 * k for k in range(40)]
    easy, hard = ("LSTM easy min-max", "LSTM hard min-max")
    assert judged_as("T3", list(done.values())).verdict == "reproduced"
    assert judged_as("T3", list({**done, easy: run_record(easy, looks=rising)}.values())).verdict == "reproduced"
    finding = judged_as("T3", list({**done, hard: run_record(hard, looks=rising)}.values()))
    assert finding.verdict == "not decided, budget"
    assert finding.reason.endswith(f"could rise ({hard}).")
    assert judged_as("T3", []).verdict == "not decided, budget"


def test_a_claim_that_fails_is_decided_only_between_rows_that_are_trained_out():
    both = ["LSTM hard first-last", "Transformer hard first-last"]
    done, rising = [run_record(row, dev=0.99) for row in both], run_record(both[1], looks=[0.02 * k for k in range(40)])
    assert judged_as("T5", done).verdict == "not reproduced, trained out"
    open_one = judged_as("T5", [done[0], rising])
    assert open_one.verdict == "not decided, budget"
    assert "not yet: Transformer hard first-last" in open_one.reason
    assert judged_as("T5", done[:1]).verdict == "not decided, budget"

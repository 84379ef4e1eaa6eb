"""The tables of a report as plain rows of text, ready for the template."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pomona.fairness import Certificate
from pomona.reports.collect import Entry, Report, Test
from pomona.shortcuts.verdicts import percent, sentence

NONE = "–"
MOST_FACTS = 24


def run_rows(collected: Report) -> list[dict[str, Any]]:
    """One row for each run or evaluation without a run, with a cell for each test."""
    rows: list[dict[str, Any]] = []
    nothing = {"model": NONE, "data": NONE, "seed": NONE, "epochs": NONE, "dev": NONE}
    for number, name in enumerate(collected.names):
        tests = [_cell(_entry(test, number)) for test in collected.tests]
        if number >= len(collected.runs):
            rows.append({"name": name, **nothing, "tests": tests})
            continue
        run = collected.runs[number]
        settings = ", ".join(f"{key} {value}" for key, value in run.recipe.settings.items())
        dev = run.summary.get("dev", max((epoch.get("dev", 0.0) for epoch in run.curve), default=None))
        rows.append(
            {
                "name": name,
                "model": f"{run.recipe.model} ({settings})" if settings else run.recipe.model,
                "data": run.recipe.data,
                "seed": run.recipe.seed,
                "epochs": str(len(run.curve)) if run.finished else run.progress.removesuffix(" epochs"),
                "dev": NONE if dev is None else f"{dev:.2%}",
                "tests": tests,
            }
        )
    return rows


def _entry(test: Test, run: int) -> Entry | None:
    return next((entry for entry in test.entries if entry.run == run), None)


def _cell(entry: Entry | None) -> dict[str, str]:
    cell = {"accuracy": NONE, "interval": "", "depth": NONE, "fits": ""}
    if entry is None:
        return cell
    value, interval = entry.scores.get("accuracy"), entry.scores.get("interval")
    if isinstance(value, (int, float)):
        cell["accuracy"] = f"{value:.2%}"
    if interval:
        cell["interval"] = f"{interval[0]:.1%} to {interval[1]:.1%}"
    depth = entry.depth
    if depth is not None:
        best, low, high = (str(level).replace("everything", "all") for level in (depth["depth"], *depth["interval"]))
        cell["depth"] = best if low == high else f"{best} ({low} to {high})"
        cell["fits"] = f"{percent(max(depth['agreement']))} of answers"
    return cell


def verdict_rows(collected: Report, test: Test) -> list[dict[str, Any]]:
    """What each run does, in plain sentences, and the numbers behind them."""
    rows = []
    for entry in test.entries:
        depths, chains = (entry.scores.get(key) or [] for key in ("effective_depth", "chains"))
        words: list[str] = []
        tests: list[str] = []
        for number, depth in enumerate(depths):
            which = f"Question {number + 1}: it" if len(depths) > 1 else "It"
            words.append(f"{which} {depth.get('sentence') or sentence(depth)}.")
            if number < len(chains) and chains[number].get("slope") is not None:
                words.append(f"{chains[number]['sentence'][0].upper()}{chains[number]['sentence'][1:]}.")
            tests.append(_tested(depth))
        if words:
            rows.append({"name": collected.names[entry.run], "words": words, "tests": tests})
    return rows


def _tested(depth: Mapping[str, Any]) -> str:
    """The numbers behind the sentence on one question."""
    words = (
        f"The evaluator that opens {_levels(depth['depth'])} gives {max(depth['agreement']):.1%} of the answers and "
        f"{depth['explained']:.1%} of the {depth['contested']:,} on which evaluators differ; "
        f"{depth['margin']:+.1%} against the best shortcut, {depth['rival']}."
    )
    return words if depth["fits"] else f"{words} Not an exact match: {'; '.join(depth['unlike'])}."


def measure_rows(collected: Report, test: Test) -> list[tuple[str, str, str]]:
    """Run, measure and its values, for every further measure that was kept with a run's scores."""
    return [
        (collected.names[entry.run], name, _values(values))
        for entry in test.entries
        for name, values in (entry.scores.get("measures") or {}).items()
    ]


def _values(values: dict[str, Any]) -> str:
    known = [(key.replace("_", " "), value) for key, value in values.items() if value not in (None, [], {})]
    return ", ".join(f"{key} {_plain(value)}" for key, value in known) or NONE


def _plain(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, dict):
        return "; ".join(f"{key}: {_plain(part)}" for key, part in value.items())
    return "; ".join(map(_plain, value)) if isinstance(value, list) else str(value)


def _levels(depth: int | str) -> str:
    return str(depth) if depth == "everything" else f"the top {depth} level{'' if depth == 1 else 's'}"


def _smoke(cell: dict[str, Any]) -> str:
    """What is put behind the name of a table that was measured only to see that everything runs."""
    return ", smoke test" if cell.get("budget") == "smoke" else ""


def paper_tables(collected: Report) -> list[dict[str, Any]]:
    """The tables of each paper, row by column, with what was printed and what was measured."""
    papers = []
    for number, (path, content) in enumerate(collected.inputs.results):
        cells = content["cells"]
        tables = []
        for where, smoke in dict.fromkeys((cell["where"], _smoke(cell)) for cell in cells):
            here = [cell for cell in cells if (cell["where"], _smoke(cell)) == (where, smoke)]
            columns = list(dict.fromkeys(cell["column"] for cell in here))
            by_place = {(cell["row"], cell["column"]): cell for cell in here}
            rows = [
                (row, [_number(by_place.get((row, column))) for column in columns])
                for row in dict.fromkeys(cell["row"] for cell in here)
            ]
            tables.append({"where": f"{where}{smoke}", "columns": columns, "rows": rows})
        papers.append(
            {
                "title": str(content.get("paper") or path.stem),
                "tables": tables,
                "commands": list(dict.fromkeys(str(cell["command"]) for cell in cells if cell.get("command"))),
                "section": f"paper-{number}",
            }
        )
    return papers


def _number(cell: dict[str, Any] | None) -> dict[str, str] | None:
    if cell is None:
        return None
    measured, runs = cell.get("measured"), cell.get("runs") or 0
    more = []
    if measured is not None and runs > 1:
        more.append(f"{runs} runs")
        if cell.get("low") is not None and cell.get("high") is not None:
            more.append(f"{cell['low']:g} to {cell['high']:g}")
    elif measured is not None and runs == 1:
        more.append("1 run")
    return {
        "printed": NONE if cell.get("printed") is None else f"{cell['printed']:g}",
        "measured": NONE if measured is None else f"{measured:g}",
        "more": ", ".join(more),
    }


def certificate_rows(collected: Report) -> list[dict[str, Any]]:
    """Verdict, a sentence, and the first of the missing facts."""
    rows = []
    for number, (path, certificate) in enumerate(collected.inputs.certificates):
        facts = [f"{fact.function}({', '.join(map(str, fact.inputs))})" for fact in certificate.violations[:MOST_FACTS]]
        rows.append(
            {
                "name": str(path),
                "fair": certificate.fair,
                "words": _verdict(certificate),
                "missing": facts,
                "more": max(0, certificate.missing - len(facts)),
                "section": f"certificate-{number}",
            }
        )
    return rows


def _verdict(certificate: Certificate) -> str:
    against = (
        "all that its domains make possible" if certificate.test is None else f"{certificate.test:,} test examples"
    )
    needed = sum(coverage.needed for coverage in certificate.coverage)
    words = (
        f"{certificate.train:,} training examples, for {against}: {needed - certificate.missing:,} of the {needed:,} "
        f"facts that are needed are shown; {len(certificate.conflicts):,} conflicts."
    )
    if certificate.given:
        words += f" Taken as known: {', '.join(certificate.given)}."
    if certificate.answered is not None and certificate.test:
        words += (
            f" A learner that only remembers answers {certificate.answered:,} of {certificate.test:,} test examples."
        )
    return words


def fit_rows(collected: Report) -> list[dict[str, Any]]:
    """The numbers of each TRE fit."""
    rows = []
    for number, (path, fit) in enumerate(collected.inputs.fits):
        certificate, shuffled = fit["certificate"], fit.get("shuffle") or {}
        facts = [
            ("TRE", _short(fit.get("score"))),
            ("composition", fit["compose"]),
            ("distance", fit["distance"]),
            ("items", _short(fit.get("items"))),
            ("status", str(certificate.get("status", NONE))),
            ("lower bound", _short(certificate.get("lower_bound"))),
        ]
        if shuffled:
            facts += [
                (f"mean of {_short(shuffled.get('shuffles'))} shuffles", _short(shuffled.get("mean"))),
                ("p", _short(shuffled.get("p_value"))),
                ("normalised", _short(shuffled.get("normalized"))),
            ]
        if fit.get("heldout"):
            facts.append(("held-out TRE", _short(fit["heldout"].get("score"))))
        if fit.get("interval"):
            facts.append(
                ("95 % interval", f"{_short(fit['interval'].get('low'))} to {_short(fit['interval'].get('high'))}")
            )
        items = {
            side: [{"item": str(item.get("item", "")), "tre": _short(item.get("tre"))} for item in fit[side]]
            for side in ("best", "worst")
        }
        notes = [str(note) for note in fit.get("notes") or []]
        rows.append({"name": str(path), "facts": facts, "notes": notes, "section": f"tre-{number}", **items})
    return rows


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, (int, float)) else NONE


def comparison_rows(collected: Report) -> list[dict[str, Any]]:
    """The sides of each comparison with their intervals, and its pairs: difference, interval, counts and p-values."""
    rows = []
    for path, comparison in collected.inputs.comparisons:
        sides = [
            {"name": side["name"], "right": _percent(side), "runs": str(len(side.get("accuracies") or [0]))}
            for side in comparison["sides"]
        ]
        pairs = [
            {
                "name": f"{pair['first']} - {pair['second']}",
                "difference": _percent(pair["difference"], "+"),
                "counts": _counts(pair.get("only_first"), pair.get("only_second")),
                "p": f"{_short(pair.get('adjusted'))} ({pair['test']})",
                "detectable": NONE if pair.get("detectable") is None else f"{pair['detectable']:.2%}",
            }
            for pair in comparison["pairs"]
        ]
        notes = [str(note) for note in comparison.get("notes") or []]
        corpus = comparison.get("corpus") or ""
        rows.append({"name": str(path), "corpus": corpus, "sides": sides, "pairs": pairs, "notes": notes})
    return rows


def _counts(first: int | None, second: int | None) -> str:
    return NONE if first is None or second is None else f"{first:,} / {second:,}"


def _percent(difference: dict[str, Any], sign: str = "") -> str:
    """A share or a difference of shares, with its interval where there is one."""
    interval = difference["interval"]
    between = f" ({interval[0]:{sign}.2%} to {interval[1]:{sign}.2%})" if interval else ""
    return NONE if difference["value"] is None else f"{difference['value']:{sign}.2%}{between}"

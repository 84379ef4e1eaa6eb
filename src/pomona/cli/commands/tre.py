"""`pomona tre`: Tree Reconstruction Error of representations from files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from pomona.cli import terminal
from pomona.cli.options import AsJson, Plot, Seed

GROUP = "measures"


def tre(
    representations: Annotated[
        Path,
        typer.Argument(
            metavar="REPS", help="One row for each item: .npy, .npz, .parquet or word2vec text (.vec, .txt)."
        ),
    ],
    derivations: Annotated[
        Path | None,
        typer.Argument(
            metavar="DERIVATIONS",
            show_default=False,
            help="How each item is built from its parts: JSON lines (nested lists, or objects of attributes), trees in "
            "brackets, a corpus, or a table of attributes (.csv). Not needed for a file of pomona represent.",
        ),
    ] = None,
    compose: Annotated[
        str, typer.Option(help="How parts combine: add, weighted, position, diagonal, linear, bilinear or mlp.")
    ] = "add",
    distance: Annotated[str, typer.Option(help="What is minimised: cosine, l1, l2, sql2 or crossentropy.")] = "cosine",
    shuffle: Annotated[
        int, typer.Option(min=0, help="Refits with shuffled derivations, for a p-value; 0 for none.")
    ] = 0,
    heldout: Annotated[
        int, typer.Option(min=0, help="Folds of cross-validation over unseen combinations of parts; 0 for none.")
    ] = 0,
    bootstrap: Annotated[int, typer.Option(min=0, help="Bootstrap resamples for a 95 % interval; 0 for none.")] = 0,
    restarts: Annotated[
        int | None, typer.Option(min=1, help="Number of starts; by default it depends on the problem.")
    ] = None,
    seed: Seed = 0,
    center: Annotated[bool, typer.Option(help="Subtract the mean representation first.")] = False,
    uncomposed: Annotated[bool, typer.Option(help="Accept primitives that never occur together with another.")] = False,
    key: Annotated[str | None, typer.Option(help="Which array of an .npz file or column of a Parquet file.")] = None,
    show: Annotated[int, typer.Option(min=0, help="Number of best and worst reconstructed items to show.")] = 5,
    max_gap: Annotated[
        float | None, typer.Option(help="Exit with status 1 if the score is further above its lower bound.")
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Write the full result to this JSON file.")] = None,
    plot: Plot = None,
    as_json: AsJson = False,
) -> None:
    """Measure how compositional representations are: their Tree Reconstruction Error (TRE).

    TRE gives each primitive part a vector, combines the vectors as the
    derivations say, and reports the mean distance to the representations
    at the best vectors found; 0 is perfectly compositional. No vectors can
    score below the lower bound. First come the answers in words: how much
    the parts explain, whether by more than chance, whether for unseen
    combinations too (each is run if it takes about a second, or if asked).

    Example: [bold]pomona tre reps.npy derivations.jsonl --compose add --distance cosine --shuffle 1000[/bold]
    """
    import warnings
    from dataclasses import replace

    from pomona.base.files import write_json
    from pomona.base.plots import plot_kind
    from pomona.representations.tre import ReconstructionWarning
    from pomona.representations.tre import tre as measure
    from pomona.representations.tre.compositions import COMPOSITIONS
    from pomona.representations.tre.distances import DISTANCES
    from pomona.representations.tre.pictures import as_plain, picture, without_nan
    from pomona.representations.tre.readers import match_rows, read_derivations, read_representations
    from pomona.representations.tre.verdict import answered

    for option, value, known in (("--compose", compose, COMPOSITIONS), ("--distance", distance, DISTANCES)):
        if value not in known:
            raise typer.BadParameter(f"{value!r} is not one of {', '.join(known)}.", param_hint=option)
    if plot is not None:
        plot_kind(plot)  # before the work, not after it
    if derivations is None:
        from pomona.representations.tre.bundles import read_bundle

        bundle = read_bundle(representations)
        vectors, trees, items = bundle.vectors, bundle.derivations, None
    else:
        trees, items = read_derivations(derivations)
        vectors = match_rows(read_representations(representations, key), items)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ReconstructionWarning)  # fit.notes has the same texts and is printed below
        fit = measure(
            vectors, trees, compose, distance, seed,
            restarts=restarts, center=center, uncomposed="allow" if uncomposed else "error",
        )  # fmt: skip
        with terminal.progress("shuffling", None, quiet=not shuffle):
            test = fit.shuffle_test(shuffle, seed) if shuffle else None
        unseen = fit.heldout(heldout, seed) if heldout else None
        interval = fit.bootstrap(bootstrap, seed) if bootstrap else None
        told = fit.verdict(None if test is None else 0, None if unseen is None else 0, seed)
        told = answered(told, fit, test, unseen)
    report = as_plain(fit, items, show) | _tests(test, unseen, interval)
    report = without_nan(report | {"verdict": told.to_dict()})
    if out is not None:
        write_json(out, report)
    if plot is not None:
        picture(fit, test).save(plot)
    if as_json:
        terminal.emit_json(report)
    else:
        terminal.out.print(terminal.plain(replace(told, notes=()), lines=True) + "\n")
        _print(report)
    if max_gap is not None and fit.bound.gap > max_gap:
        terminal.err.print(f"The gap {fit.bound.gap:.6g} to the lower bound is larger than {max_gap:g}.")
        raise typer.Exit(terminal.CHECK_FAILED)


def _tests(test: Any, unseen: Any, interval: Any) -> dict[str, Any]:
    """The results of the tests that were asked for."""
    results: dict[str, Any] = {}
    if test is not None:
        share = 1.0 - test.observed / test.mean if test.reason is None and test.mean > 0 else None
        results["shuffle"] = {
            "shuffles": len(test.null), "mean": test.mean, "lowest": float(test.null.min()), "p_value": test.p_value,
            "normalized": share, "reason": test.reason,
        }  # fmt: skip
    if unseen is not None:
        results["heldout"] = {
            "score": unseen.score, "in_sample": unseen.in_sample, "gap": unseen.gap, "r_squared": unseen.r_squared,
            "folds": unseen.folds, "tested": unseen.tested, "anchored": unseen.anchored,
        }  # fmt: skip
    if interval is not None:
        results["interval"] = {"low": interval.low, "high": interval.high, "level": interval.level}
    return results


def _print(report: dict[str, Any]) -> None:
    bound = report["certificate"]
    rows = [
        ("TRE", f"{report['score']:.6g}"),
        ("status", bound["status"]),
        ("lower bound", f"{bound['lower_bound']:.6g} ({bound['bound']})"),
        ("gap", f"{bound['gap']:.3g}"),
        ("predicting zero / the mean", f"{_number(bound['zero'])} / {_number(bound['centroid'])}"),
        ("items, primitives, rank", f"{report['items']}, {report['primitives']}, {bound['rank']}"),
    ]
    if "shuffle" in report:
        null = report["shuffle"]
        rows.append((f"{null['shuffles']} shuffles", f"mean {_number(null['mean'])}, p = {_number(null['p_value'])}"))
        rows.append(
            (
                "normalised (1 - TRE / shuffled)",
                _number(null["normalized"]) + (f": {null['reason']}" if null["reason"] else ""),
            )
        )
    if "heldout" in report:
        rows.append(
            ("held-out TRE", f"{_number(report['heldout']['score'])} (gap {_number(report['heldout']['gap'])})")
        )
    if "interval" in report:
        rows.append(("95 % interval", f"{_number(report['interval']['low'])} to {_number(report['interval']['high'])}"))
    terminal.out.print(terminal.table(f"{report['compose']} + {report['distance']}", ("", ""), rows, left=2))
    for title in ("best", "worst"):
        if report[title]:
            lines = [(str(item["row"]), item["item"], f"{item['tre']:.4g}") for item in report[title]]
            terminal.out.print(terminal.table(f"\n{title} reconstructed", ("row", "item", "TRE"), lines, left=2))
    for note in report["notes"]:
        terminal.err.print(f"[yellow]note[/]: {terminal.plain(note)}")


def _number(value: float | None) -> str:
    return "NaN" if value is None else f"{value:.4g}"

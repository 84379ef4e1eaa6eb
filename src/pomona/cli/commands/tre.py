"""`pomona tre`: measure how compositional representations are."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pomona.cli import terminal

if TYPE_CHECKING:
    from pomona.representations.tre import TreFit


def tre(
    representations: Annotated[
        Path,
        typer.Argument(metavar="REPS", help="Representations: .npy, .npz, .parquet or word2vec text (.vec, .txt)."),
    ],
    derivations: Annotated[
        Path, typer.Argument(metavar="DERIVATIONS", help="JSON lines: nested lists, or objects of attributes.")
    ],
    compose: Annotated[str, typer.Option(help="add, weighted, position, diagonal, linear, bilinear or mlp.")] = "add",
    distance: Annotated[str, typer.Option(help="cosine, l1, l2, sql2 or crossentropy.")] = "cosine",
    shuffle: Annotated[
        int, typer.Option(min=0, help="Shuffles for the null distribution and p-value; 0 for none.")
    ] = 0,
    heldout: Annotated[
        int, typer.Option(min=0, help="Folds for held-out TRE over unseen combinations; 0 for none.")
    ] = 0,
    bootstrap: Annotated[int, typer.Option(min=0, help="Resamples for a 95 % interval; 0 for none.")] = 0,
    restarts: Annotated[int | None, typer.Option(min=1, help="How many starts; by default chosen by problem.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of every random choice.")] = 0,
    center: Annotated[bool, typer.Option(help="Subtract the mean representation first.")] = False,
    uncomposed: Annotated[bool, typer.Option(help="Accept primitives that only ever stand alone.")] = False,
    key: Annotated[str | None, typer.Option(help="Which array of an .npz or column of a Parquet file.")] = None,
    show: Annotated[int, typer.Option(min=0, help="How many best and worst reconstructed items to show.")] = 5,
    max_gap: Annotated[
        float | None, typer.Option(help="Fail (exit 1) if the gap to the lower bound is larger.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Write everything as JSON here.")] = None,
    plot: Annotated[
        Path | None, typer.Option(help="Draw the scores against the shuffled null here (.png, .svg).")
    ] = None,
    json_: Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")] = False,
) -> None:
    """Tree Reconstruction Error: how well can a compositional model imitate these representations?

    Example: [bold]pomona tre reps.npy derivations.jsonl --compose add --distance cosine --shuffle 1000[/bold]
    """
    import warnings

    from pomona.representations.tre import ReconstructionWarning
    from pomona.representations.tre import tre as measure
    from pomona.representations.tre.compositions import COMPOSITIONS
    from pomona.representations.tre.distances import DISTANCES
    from pomona.representations.tre.readers import match_rows, read_derivations, read_representations

    for option, value, known in (("--compose", compose, COMPOSITIONS), ("--distance", distance, DISTANCES)):
        if value not in known:
            raise typer.BadParameter(f"{value!r} is none of {', '.join(known)}.", param_hint=option)
    given, items = read_derivations(derivations)
    vectors = match_rows(read_representations(representations, key), items)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ReconstructionWarning)  # they are in fit.notes, which we print ourselves
        fit = measure(
            vectors, given, compose, distance, seed,
            restarts=restarts, center=center, uncomposed="allow" if uncomposed else "error",
        )  # fmt: skip
        with terminal.progress("shuffling", None, quiet=not shuffle):
            test = fit.shuffle_test(shuffle, seed) if shuffle else None
        unseen = fit.heldout(heldout, seed) if heldout else None
        interval = fit.bootstrap(bootstrap, seed) if bootstrap else None
    report = _report(fit, test, unseen, interval, items, show)
    if out is not None:
        _write_json(out, report)
    if plot is not None:
        _draw(plot, fit, test)
    if json_:
        terminal.emit_json(report)
    else:
        _print(report)
    if max_gap is not None and fit.certificate.gap > max_gap:
        terminal.err.print(f"The gap {fit.certificate.gap:.6g} is larger than {max_gap:g}.")
        raise typer.Exit(terminal.CHECK_FAILED)


def _report(
    fit: TreFit, test: Any, unseen: Any, interval: Any, items: tuple[str, ...] | None, show: int
) -> dict[str, Any]:
    import dataclasses

    import numpy as np

    order = np.argsort(fit.per_item, kind="stable")

    def row(number: int) -> dict[str, Any]:
        name = items[number] if items else str(fit.derivations.tree(number))
        return {"row": int(number), "item": name, "tre": float(fit.per_item[number])}

    report: dict[str, Any] = {
        "score": fit.score,
        "compose": fit.compose.name,
        "distance": fit.distance.name,
        "items": len(fit.per_item),
        "primitives": len(fit.derivations.names),
        "certificate": dataclasses.asdict(fit.certificate),
        "notes": list(fit.notes),
        "best": [row(number) for number in order[:show]],
        "worst": [row(number) for number in order[::-1][:show]],
        "per_item": fit.per_item.tolist(),
    }
    if test is not None:
        share = 1.0 - test.observed / test.mean if test.reason is None and test.mean > 0 else None
        report["shuffle"] = {
            "shuffles": len(test.null), "mean": test.mean, "lowest": float(test.null.min()), "p_value": test.p_value,
            "normalized": share, "reason": test.reason,
        }  # fmt: skip
    if unseen is not None:
        report["heldout"] = {
            "score": unseen.score, "in_sample": unseen.in_sample, "gap": unseen.gap, "r_squared": unseen.r_squared,
            "folds": unseen.folds, "tested": unseen.tested, "anchored": unseen.anchored,
        }  # fmt: skip
    if interval is not None:
        report["interval"] = {"low": interval.low, "high": interval.high, "level": interval.level}
    made: dict[str, Any] = _without_nan(report)
    return made


def _without_nan(value: Any) -> Any:
    """JSON has no NaN; null says the same, beside a reason."""
    if isinstance(value, dict):
        return {key: _without_nan(part) for key, part in value.items()}
    if isinstance(value, list):
        return [_without_nan(part) for part in value]
    return None if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))) else value


def _print(report: dict[str, Any]) -> None:
    certificate = report["certificate"]
    rows = [
        ("TRE", f"{report['score']:.6g}"),
        ("status", certificate["status"]),
        ("lower bound", f"{certificate['lower_bound']:.6g} ({certificate['bound']})"),
        ("gap", f"{certificate['gap']:.3g}"),
        ("predicting zero / the mean", f"{_number(certificate['zero'])} / {_number(certificate['centroid'])}"),
        ("items, primitives, rank", f"{report['items']}, {report['primitives']}, {certificate['rank']}"),
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


def _write_json(path: Path, report: dict[str, Any]) -> None:
    """Write beside the target and rename, so that no reader ever sees half a file."""
    import json
    import os

    from pomona.base.errors import FormatError

    beside = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        beside.write_text(json.dumps(report, ensure_ascii=False, indent=2, allow_nan=False) + "\n", encoding="utf-8")
        beside.replace(path)
    except OSError as error:
        beside.unlink(missing_ok=True)
        raise FormatError(f"cannot be written ({error.strerror}).", path=path) from None


def _draw(path: Path, fit: TreFit, test: Any) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    import numpy as np

    from pomona.base.errors import FormatError

    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4), layout="constrained")
    if test is not None:
        left.hist(test.null, bins=40, color="0.75", label="derivations shuffled")
    left.axvline(fit.score, color="C3", label=f"TRE {fit.score:.4g}")
    left.axvline(fit.certificate.lower_bound, color="C0", linestyle=":", label="lower bound")
    left.set(xlabel=f"TRE ({fit.compose.name}, {fit.distance.name})", ylabel="shuffles")
    left.legend(frameon=False)
    order = np.argsort(fit.per_item, kind="stable")
    chosen = np.unique(np.concatenate([order[:8], order[-8:]]))
    chosen = chosen[np.argsort(fit.per_item[chosen], kind="stable")]
    labels = [str(fit.derivations.tree(int(row)))[:40].replace("$", r"\$") for row in chosen]
    right.barh(np.arange(len(chosen)), fit.per_item[chosen], color="C0")
    right.set_yticks(np.arange(len(chosen)), labels, fontsize=7)
    right.set(xlabel="TRE of the best and worst reconstructed items")
    try:
        figure.savefig(path, dpi=150)
    except (OSError, ValueError) as error:
        raise FormatError(f"the plot cannot be written ({error}).", path=path) from None
    finally:
        plt.close(figure)

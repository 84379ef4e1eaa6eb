"""`pomona measure`: the measures that stand beside TRE."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from pomona.cli import terminal

MEASURES = {
    "topsim": "topographic similarity of MEANINGS and MESSAGES",
    "rsa": "the same between two arrays of vectors",
    "posdis": "positional disentanglement of ATTRIBUTES and MESSAGES",
    "bosdis": "bag-of-symbols disentanglement",
    "context-independence": "Bogin et al.'s context independence",
    "conditional-entropy": "H(message | attribute) and back",
    "binned-entropy": "the TRE paper's 'mutual information' of REPRESENTATIONS",
    "tree-edit": "the tree edit distance of each pair of DERIVATIONS, row by row",
    "proposition-1": "the TRE paper's bound of distances by edit distances, for REPRESENTATIONS and DERIVATIONS",
    "mutual-information": "a nearest-neighbour estimate between REPRESENTATIONS and LABELS",
}


def measure(
    name: Annotated[str, typer.Argument(help=f"One of {', '.join(MEASURES)}.")],
    first: Annotated[Path, typer.Argument(help="Meanings, attributes or vectors: .jsonl, .npy or lines of text.")],
    second: Annotated[Path | None, typer.Argument(help="Messages, vectors or labels, in the same order.")] = None,
    meaning_distance: Annotated[str, typer.Option(help="hamming, edit, tree, cosine, euclidean or l1.")] = "hamming",
    message_distance: Annotated[str, typer.Option(help="hamming, edit, tree, cosine, euclidean or l1.")] = "edit",
    method: Annotated[str, typer.Option(help="spearman, pearson or kendall.")] = "spearman",
    permutations: Annotated[int, typer.Option(min=0, help="Permutations of items for a p-value; 0 for none.")] = 0,
    binning: Annotated[str, typer.Option(help="andreas2019 or range, for binned-entropy.")] = "andreas2019",
    neighbours: Annotated[int, typer.Option(min=1, help="Neighbours for mutual-information.")] = 3,
    seed: Annotated[int, typer.Option(min=0, help="Seed of every random choice.")] = 0,
    json_: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Measures of compositional structure that stand beside TRE.

    Example: [bold]pomona measure topsim attributes.jsonl messages.txt --permutations 1000[/bold]
    """
    import dataclasses

    from pomona.base.errors import MeasureError
    from pomona.representations.tre.readers import read_items

    if name not in MEASURES:
        raise typer.BadParameter(f"{name!r} is none of {', '.join(MEASURES)}.", param_hint="NAME")
    if second is None and name != "binned-entropy":
        raise typer.BadParameter(f"{name} compares two files; give the second one.", param_hint="SECOND")
    found: Any
    left: Any = None
    right: Any = None
    if name != "proposition-1":
        left, right = read_items(first), read_items(second) if second is not None else None
    if name == "proposition-1":
        found = _proposition_1(first, second)
    elif name == "tree-edit":
        from pomona.representations.edit_distance import tree_edit_distance

        if len(left) != len(right):
            raise MeasureError(f"{len(left)} derivations but {len(right)} beside them: there must be one for each.")
        found = {"distances": [tree_edit_distance(a, b) for a, b in zip(left, right, strict=True)]}
    elif name in ("topsim", "rsa"):
        from pomona.representations.topographic import topographic_similarity

        near, far = ("cosine", "cosine") if name == "rsa" else (meaning_distance, message_distance)
        options: dict[str, Any] = {"method": method, "permutations": permutations, "seed": seed}
        (left, near), (right, far) = _as_trees(left, near), _as_trees(right, far)
        found = topographic_similarity(left, right, near, far, **options)
    elif name in ("posdis", "bosdis"):
        from pomona.representations import disentanglement

        found = getattr(disentanglement, name)(left, right)
    elif name in ("context-independence", "conditional-entropy"):
        from pomona.representations import information

        call = information.context_independence if name == "context-independence" else information.conditional_entropies
        found = call(left, right)
    else:
        from pomona.representations.information import binned_entropy, mutual_information

        if name == "binned-entropy":
            found = {"value": binned_entropy(left, binning=binning)}
        else:
            labels = right
            if isinstance(right, list) and any(isinstance(value, list) for value in right):
                raise MeasureError("labels must be one name or number for each item, not lists.")
            found = {"value": mutual_information(left, labels, neighbours)}
    fields = (
        dataclasses.asdict(found) if dataclasses.is_dataclass(found) and not isinstance(found, type) else dict(found)
    )
    if json_:
        terminal.emit_json({"measure": name, **{key: _plain_json(value) for key, value in fields.items()}})
        return
    rows = [(key.replace("_", " "), _text(value)) for key, value in fields.items() if value is not None]
    terminal.out.print(terminal.table(f"{name}: {MEASURES[name]}", ("", ""), rows, left=2))


def _proposition_1(representations: Path, derivations: Any) -> Any:
    """Fit with addition and l2, under which the proposition's conditions can hold, and check its bound."""
    import warnings

    from pomona.representations.edit_distance import check_proposition_1
    from pomona.representations.tre import tre
    from pomona.representations.tre.readers import match_rows, read_derivations, read_representations

    given, items = read_derivations(derivations)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fit = tre(match_rows(read_representations(representations), items), given, distance="l2", uncomposed="allow")
    return check_proposition_1(fit, rescale=True)


def _as_trees(values: Any, distance: str) -> tuple[Any, str]:
    """The distance called 'tree' is computed here, once for all pairs, since no measure imports another."""
    if distance != "tree":
        return values, distance
    from pomona.representations.edit_distance import tree_edit_distances

    return tree_edit_distances(list(values)), "condensed"


def _plain_json(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain_json(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain_json(part) for part in value]
    if hasattr(value, "item"):
        value = value.item()
    return None if isinstance(value, float) and value != value else value


def _text(value: Any) -> str:
    if isinstance(value, float):
        return "NaN" if value != value else f"{value:.6g}"
    if isinstance(value, dict):
        return ", ".join(f"{key}: {part}" for key, part in value.items())
    return ", ".join(_text(part) for part in value) if isinstance(value, tuple | list) else str(value)

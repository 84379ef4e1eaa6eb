"""`pomona represent`: the vectors of a run, with how each item is built, in one file for `pomona tre`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pomona.cli import terminal
from pomona.cli.options import AsJson, Data, DataSeed, Import, Settings, Size, Split, Weights

if TYPE_CHECKING:
    from pomona.data.corpus import Corpus
    from pomona.trees.forest import Forest

GROUP = "models"
DERIVATIONS = ("tree", "tokens", "built")


def represent(
    run: Annotated[Path, typer.Argument(help="A run's folder.")],
    data: Data,
    out: Annotated[Path, typer.Option("--out", "-o", help="The file to write: .npz or .parquet.")] = Path(
        "vectors.npz"
    ),
    split: Split = "",
    data_seed: DataSeed = None,
    size: Size = None,
    settings: Settings = None,
    longest: Annotated[
        int | None, typer.Option(help="Only examples of at most this many tokens, of which --size then counts.", min=1)
    ] = None,
    derivation: Annotated[
        str,
        typer.Option(
            help="How an example is built: tree (the data's tree, operator first), tokens (all in one list) or built "
            "(the tree that the model read or made)."
        ),
    ] = "tree",
    nodes: Annotated[
        bool, typer.Option("--nodes", help="A vector for every inner node of the model's trees, not only for the root.")
    ] = False,
    weights: Weights = "best",
    imports: Import = None,
    as_json: AsJson = False,
) -> None:
    """Write a run's vectors and, beside each, the derivation of its example: nested tokens that say how it is built.

    pomona tre takes the file as it is, and measures how far the vectors are composed of parts.

    Example: [bold]pomona represent runs/tree --data data/ --longest 8 --out vectors.npz[/bold]
    """
    from pomona.base.errors import MeasureError, RunError
    from pomona.base.extras import need
    from pomona.base.registry import parse_settings
    from pomona.data.sources import corpus_from
    from pomona.representations.tre.bundles import check_name, write_bundle
    from pomona.training.run import Run

    if derivation not in DERIVATIONS:
        raise typer.BadParameter(f"{derivation!r} is not one of {', '.join(DERIVATIONS)}", param_hint="--derivation")
    check_name(out)  # before the work, not after it
    trained = Run.read(run)
    need("torch")
    corpus = corpus_from(data, split=split, seed=data_seed, settings=parse_settings(settings or []))
    corpus = (corpus if longest is None else corpus[corpus.lengths <= longest])[:size]
    if not len(corpus):
        raise RunError(f"no example of {data} is left (longest = {longest}); there is nothing to represent")
    if nodes or derivation == "built":
        names, vectors, derivations = _built(trained, corpus, weights, every=nodes)
    else:
        from pomona.training.predict import represent as vectors_of

        names, derivations = _names(corpus), _derivations(corpus, derivation)
        vectors = vectors_of(trained, corpus, which=weights)
    if not len(vectors):
        raise MeasureError(f"the model's trees over {data} have no inner nodes; take longer examples")
    write_bundle(out, vectors, names, derivations)
    about = {"file": str(out), "items": len(vectors), "width": int(vectors.shape[1]), "examples": len(corpus)}
    if as_json:
        terminal.emit_json({**about, "fingerprint": corpus.fingerprint})
        return
    terminal.out.print(
        f"Wrote {len(vectors):,} vectors of width {vectors.shape[1]} with their derivations, for example "
        f"{terminal.plain(_shown(derivations[0]))}.\nNext: pomona tre {terminal.plain(out)}"
    )


def _names(corpus: Corpus) -> list[str]:
    from pomona.data.answers import ids_of

    return ids_of(corpus)


def _derivations(corpus: Corpus, kind: str) -> list[Any]:
    """How each example is built: its tree as nested tuples, or its tokens in one list."""
    if kind == "tokens":
        return [tuple(text.split()) for text in corpus.texts]
    trees = corpus.forest.nested()
    width = corpus.width
    return trees if width == 1 else [tuple(trees[at : at + width]) for at in range(0, len(trees), width)]


def _built(run: Any, corpus: Corpus, which: str, *, every: bool) -> tuple[list[str], Any, list[Any]]:
    """The names, vectors and derivations of the roots, or of every inner node, of the trees that the model composes."""
    import numpy as np

    from pomona.training.predict import represent_nodes

    forest, vectors = represent_nodes(run, corpus, which=which)
    chosen = np.flatnonzero(~forest.leaf) if every else forest.root
    derivations = _groups(forest)
    names = _names(corpus)
    owner, first = forest.tree[chosen], forest.start[forest.tree[chosen]]
    labels = [
        f"{names[tree]}/{node - begin}" if every else names[tree]
        for tree, node, begin in zip(owner.tolist(), chosen.tolist(), first.tolist(), strict=True)
    ]
    return labels, vectors[chosen], [derivations[node] for node in chosen.tolist()]


def _groups(forest: Forest) -> list[Any]:
    """Every node of a forest as nested tuples of its leaves; an inner node has no word of its own."""
    built: list[Any] = []
    stack: list[Any] = []
    columns = (forest.symbol.tolist(), forest.arity.tolist(), forest.parent.tolist())
    for symbol, arity, parent in zip(*columns, strict=True):
        node = tuple(stack[len(stack) - arity :]) if arity else forest.names[symbol]
        del stack[len(stack) - arity :]
        built.append(node)
        stack.append(node)
        if parent < 0:
            stack.clear()
    return built


def _shown(derivation: Any) -> str:
    text = repr(derivation).replace("'", "")
    return text if len(text) <= 100 else text[:97] + "..."

"""JSON lines as the standard library writes them, and read one by one: the slow twins of the compiled loops."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pomona.base.files import read_lines
from pomona.data.corpus import Corpus
from pomona.data.json_rows import Lines, Rows


def nodes(corpus: Corpus, row: int) -> list[dict[str, Any]]:
    """The trees of a row as nested objects."""
    example, trees = corpus[row], []
    forest = example.trees
    for first, last in zip(forest.start[:-1].tolist(), forest.start[1:].tolist(), strict=True):
        children: dict[int, list[dict[str, Any]]] = {}
        for node in range(first, last):
            entry: dict[str, Any] = {"type": forest.names[forest.symbol[node]], "value": example.values[node]}
            if forest.links[node]:
                entry["link"] = int(forest.links[node])
            if node - first in children:
                entry["children"] = children[node - first]
            children.setdefault(int(forest.parent[node]), []).append(entry)
        trees += children[-1]
    return trees


def lines(corpus: Corpus) -> str:
    """All lines; the order of keys is that of the schema."""
    text = []
    for row, example in enumerate(corpus):
        trees = nodes(corpus, row)
        targets = [None if value < 0 else corpus.outcomes[value] for value in corpus.targets[row].tolist()]
        line: dict[str, Any] = {"id": example.id, "tokens": list(example.tokens), "target": targets}
        line |= {"tree": trees[0]} if corpus.width == 1 else {"trees": trees}
        line |= {"length": example.length, "nesting": example.nesting, "dependency": example.dependency}
        line |= {name: column[row].tolist() for name, column in corpus.columns.items()}
        text.append(json.dumps(line, ensure_ascii=False) + "\n")
    return "".join(text)


def read(path: Path) -> Corpus:
    """The corpus of a file, every line by the reader of single lines."""
    rows = Rows(path)
    one_by_one = Lines(rows)
    for number, raw in enumerate(read_lines(path).removesuffix(b"\n").split(b"\n"), 1):
        one_by_one.add(number, raw)
    one_by_one.flush()
    return rows.corpus()

"""The checker: test every claim of a certificate again, in plain Python and from the examples alone.

    check(certify(train, test), train, test)         True; False if any claim is wrong for these data

It shares no code with `certify`: it uses dictionaries instead of hash tables and compiled loops. A certificate does not
pass if it was tampered with, belongs to other data, or claims too much or too little. Two values are equal only if
their types are: 1, 1.0 and True are three values.
"""

from __future__ import annotations

import fnmatch
import math
from collections import Counter
from collections.abc import Iterator
from typing import Any

from pomona.data.corpus import Corpus
from pomona.fairness.certificates import Certificate

_ROWS = 20_000  # examples turned into Python lists at a time


def check(certificate: Certificate, train: Corpus, test: Corpus | None = None) -> bool:
    """Whether every claim of the certificate holds for these data."""
    taught: dict[Any, Any] = {}
    clashes = {_fact(conflict) for conflict in certificate.conflicts}
    missing = {_fact(violation) for violation in certificate.violations}
    claims = {
        (witness.example, witness.node): (_fact(witness), exact(witness.output)) for witness in certificate.witnesses
    }
    if len(claims) < len(certificate.witnesses):
        return False  # a node shows one fact, so it cannot be the witness of two
    contradicted = set()
    spelled = spelling(train, test)
    for example, node, fact, output in local_facts(certificate, train, spelled):
        if taught.setdefault(fact, output) != output:
            contradicted.add(fact)
        if claims.pop((example, node), (fact, output)) != (fact, output):
            return False  # this witness shows another fact
    if test is None:
        seen: dict[Any, set[Any]] = {}  # the values at each argument of each function
        for function, inputs in taught:
            for argument, value in enumerate(inputs):
                seen.setdefault((function, len(inputs), argument), set()).add(value)
        needed, wrong = set(taught), None
        wanted: Counter[str] = Counter()
        for function, arity in {(function, len(inputs)) for function, inputs in taught}:
            wanted[function] += math.prod(len(seen[function, arity, argument]) for argument in range(arity))
        gaps = wanted - Counter(function for function, _ in taught)
        possible = all(v in seen.get((f, len(i), argument), ()) for f, i in missing for argument, v in enumerate(i))
        complete = possible and not missing & needed and bool(missing) == bool(gaps)
    else:
        needs = {(violation.example, violation.node): _fact(violation) for violation in certificate.violations}
        if len(needs) < len(certificate.violations):
            return False
        asked: dict[Any, Any] = {}
        wrong, unsettled = set(), set(contradicted)
        for example, node, fact, output in local_facts(certificate, test, spelled):
            if asked.setdefault(fact, output) != output or taught.get(fact, output) != output:
                contradicted.add(fact)
            if fact in unsettled or fact not in taught or taught[fact] != output:
                wrong.add(example)
            if needs.pop((example, node), fact) != fact:
                return False  # this node of the test example needs another fact
        needed, wanted = set(asked), Counter(function for function, _ in asked)
        gaps = Counter(function for function, inputs in needed if (function, inputs) not in taught)
        complete = missing == needed - set(taught) and not needs
    return (
        complete
        and not claims
        and contradicted == clashes
        and {_fact(witness) for witness in certificate.witnesses} == needed & set(taught)
        and {tuple(count) for count in certificate.coverage} == {(f, wanted[f], wanted[f] - gaps[f]) for f in wanted}
        and (certificate.train, certificate.test) == (len(train), None if test is None else len(test))
        and certificate.answered == (None if wrong is None or test is None else len(test) - len(wrong))
        and certificate.copies == (() if wrong is None or test is None else by_depth(train, test, wrong))
        and certificate.spelling == (spelled if certificate.copies else None)
    )


def exact(value: Any) -> Any:
    """A key that two values share only if both type and value are the same, also inside tuples.

    >>> exact(1) == exact(True), exact((1, "a")) == exact((1.0, "a")), exact((1, "a")) == exact((1, "a"))
    (False, False, True)
    """
    if type(value) in (str, int):
        return value  # their own keys, which is quick: all others are pairs
    return type(value).__name__, tuple(map(exact, value)) if isinstance(value, tuple) else repr(value)


def _fact(claim: Any) -> tuple[str, tuple[Any, ...]]:
    """The fact that a witness, violation or conflict is about: its function and the exact keys of its inputs."""
    return claim[0], tuple(map(exact, claim[1]))


def local_facts(certificate: Certificate, corpus: Corpus, spelled: str | None) -> Iterator[tuple[int, int, Any, Any]]:
    """Example, node, (function, inputs) and output of every local fact, except those of functions taken as given.

    Every inner node has a local fact. So has every COPY, unless numbers are spelled by digits: its input is the number
    written there, its output the position that its link leads to. Inputs and outputs are exact keys.
    """
    for first in range(0, len(corpus), _ROWS):
        part = corpus[first : first + _ROWS]
        names, outcomes = part.forest.names, [*map(exact, part.outcomes), None]
        value: list[Any] = [outcomes[number] for number in part.values.tolist()]
        nodes = zip(part.forest.symbol.tolist(), part.forest.arity.tolist(), part.forest.links.tolist(), strict=True)
        starts = iter(part.forest.start[:: part.width].tolist())
        base, end, example = 0, next(starts), first - 1
        stack: list[Any] = []
        addresses: dict[int, tuple[list[str], int]] = {}
        for node, (symbol, arity, link) in enumerate(nodes):
            if node == end:
                base, end, example, stack = node, next(starts), example + 1, []
                addresses = quotations(part, example - first) if spelled != "digits" else {}
            if link:
                value[node] = value[node - link]
            elif not arity and value[node] is None:
                value[node] = exact(names[symbol])
            inputs = tuple(stack[len(stack) - arity :])
            del stack[len(stack) - arity :]
            stack.append(value[node])
            function = names[symbol] if certificate.by == "type" else f"node {node - base}"
            if any(fnmatch.fnmatchcase(function, pattern) for pattern in certificate.given):
                continue
            if arity:
                yield example, node - base, (function, inputs), value[node]
            elif node - base in addresses:
                pieces, position = addresses[node - base]
                yield example, node - base, (function, (exact(_number(pieces)),)), exact(position)


def quotations(corpus: Corpus, row: int) -> dict[int, tuple[list[str], int]]:
    """The tokens of each COPY's argument in a row, and the position that its link leads to, by node."""
    if corpus.forest.link is None or "[COPY" not in corpus.vocabulary:
        return {}
    example = corpus[row]
    arguments, tokens = [], list(example.tokens)
    for index, token in enumerate(tokens):
        if token == "[COPY":
            arguments.append(tokens[index + 1 : tokens.index("]", index)])
    order: list[int] = []  # the nodes in level order, tree after tree
    for first, last in zip(example.trees.start[:-1].tolist(), example.trees.start[1:].tolist(), strict=True):
        level = {last - 1: 0}
        for node in range(last - 2, first - 1, -1):
            level[node] = level[first + int(example.trees.parent[node])] + 1
        order += sorted(level, key=lambda node: (level[node], node))
    links = example.trees.links.tolist()
    quoting = [node for node, link in enumerate(links) if link]
    return {node: (pieces, order.index(node - links[node])) for node, pieces in zip(quoting, arguments, strict=True)}


def spelling(*corpora: Corpus | None) -> str | None:
    """How arguments of COPY are written: "words", "digits", or None if no argument has more than one digit."""
    spelled = None
    for corpus in filter(None, corpora):
        for row in range(len(corpus)):
            for pieces, _ in quotations(corpus, row).values():
                spelled = "digits" if len(pieces) > 1 else "words" if len(pieces[0]) > 1 else spelled
    return spelled


def by_depth(train: Corpus, test: Corpus, wrong: set[int]) -> tuple[Any, ...]:
    """The counts of `pomona.fairness.Copies` for each depth of the test examples.

    They are examples, answered ones, ones without a new index, COPYs, COPYs of a new index, and the new indices. An
    index is new if training never copies it.
    """
    if test.forest.link is None or "[COPY" not in test.vocabulary:
        return ()
    copied = {_number(pieces) for row in range(len(train)) for pieces, _ in quotations(train, row).values()}
    counts: dict[int, list[int]] = {}
    new_indices: dict[int, set[int]] = {}
    for row in range(len(test)):
        depth = int(test.nesting[row])
        indices = [_number(pieces) for pieces, _ in quotations(test, row).values()]
        new = [index for index in indices if index not in copied]
        row_counts = (1, row not in wrong, not new, len(indices), len(new))
        counts[depth] = [total + more for total, more in zip(counts.get(depth, [0] * 5), row_counts, strict=True)]
        new_indices.setdefault(depth, set()).update(new)
    return tuple((depth, *counts[depth], tuple(sorted(new_indices[depth]))) for depth in sorted(counts))


def _number(pieces: list[str]) -> int:
    return int("".join(pieces))

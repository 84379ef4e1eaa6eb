"""The checker: every claim of a certificate, established again in plain Python from the rows themselves.

    check(certify(train, test), train, test)         True, or the certificate is not about these data

It shares no code with `certify`: no hashing, no compiled loops, no arrays but the corpus. A certificate that was
tampered with, belongs to other data or claims too much or too little does not pass.
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
    clashes, missing = {one[:2] for one in certificate.conflicts}, {one[:2] for one in certificate.violations}
    claims = {(one.example, one.node): (one[:2], one.output) for one in certificate.witnesses}
    if len(claims) < len(certificate.witnesses):
        return False  # a node shows one fact, and cannot be the witness of two
    contradicted = set()
    spelled = spelling(train, test)
    for example, node, fact, output in local_facts(certificate, train, spelled):
        if taught.setdefault(fact, output) != output:
            contradicted.add(fact)
        if claims.pop((example, node), (fact, output)) != (fact, output):
            return False  # the example named as a witness shows something else there
    if test is None:
        seen: dict[Any, set[Any]] = {}  # the values at each argument of each function
        for function, inputs in taught:
            for place, value in enumerate(inputs):
                seen.setdefault((function, len(inputs), place), set()).add(value)
        needed, wrong = set(taught), None
        wanted: Counter[str] = Counter()
        for function, count in {(function, len(inputs)) for function, inputs in taught}:
            wanted[function] += math.prod(len(seen[function, count, place]) for place in range(count))
        gaps = wanted - Counter(function for function, _ in taught)
        possible = all(v in seen.get((f, len(i), place), ()) for f, i in missing for place, v in enumerate(i))
        complete = possible and not missing & needed and bool(missing) == bool(gaps)
    else:
        needs = {(one.example, one.node): one[:2] for one in certificate.violations}
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
                return False  # the test example named does not need it there
        needed, wanted = set(asked), Counter(function for function, _ in asked)
        gaps = Counter(function for function, inputs in needed if (function, inputs) not in taught)
        complete = missing == needed - set(taught) and not needs
    return (
        complete
        and not claims
        and contradicted == clashes
        and {one[:2] for one in certificate.witnesses} == needed & set(taught)
        and {tuple(one) for one in certificate.coverage} == {(f, wanted[f], wanted[f] - gaps[f]) for f in wanted}
        and (certificate.train, certificate.test) == (len(train), None if test is None else len(test))
        and certificate.answered == (None if wrong is None or test is None else len(test) - len(wrong))
        and certificate.copies == (() if wrong is None or test is None else by_depth(train, test, wrong))
        and certificate.spelling == (spelled if certificate.copies else None)
    )


def local_facts(certificate: Certificate, corpus: Corpus, spelled: str | None) -> Iterator[tuple[int, int, Any, Any]]:
    """Example, node, (function, inputs) and output of every function at work that is not taken as given.

    That is every inner node and, unless numbers are spelled by digits, every COPY: what it says, where it leads.
    """
    for first in range(0, len(corpus), _ROWS):
        part = corpus[first : first + _ROWS]
        names, outcomes = part.forest.names, [*part.outcomes, None]
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
                value[node] = names[symbol]
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
                yield example, node - base, (function, (_number(pieces),)), position


def quotations(corpus: Corpus, row: int) -> dict[int, tuple[list[str], int]]:
    """The tokens of each COPY's argument in a row, and the position that its link leads to, by node."""
    if corpus.forest.link is None or "[COPY" not in corpus.vocabulary:
        return {}
    example = corpus[row]
    arguments, tokens = [], list(example.tokens)
    for place, token in enumerate(tokens):
        if token == "[COPY":
            arguments.append(tokens[place + 1 : tokens.index("]", place)])
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
    """How arguments of COPY are written: as words, by digits, or None if none has more than one digit."""
    spelled = None
    for corpus in filter(None, corpora):
        for row in range(len(corpus)):
            for pieces, _ in quotations(corpus, row).values():
                spelled = "digits" if len(pieces) > 1 else "words" if len(pieces[0]) > 1 else spelled
    return spelled


def by_depth(train: Corpus, test: Corpus, wrong: set[int]) -> tuple[Any, ...]:
    """The test examples by depth: answered, familiar, their COPYs and those that training never has."""
    if test.forest.link is None or "[COPY" not in test.vocabulary:
        return ()
    copied = {_number(pieces) for row in range(len(train)) for pieces, _ in quotations(train, row).values()}
    found: dict[int, list[Any]] = {}
    for row in range(len(test)):
        bin_ = found.setdefault(int(test.nesting[row]), [0, 0, 0, 0, 0, set()])
        arguments = [_number(pieces) for pieces, _ in quotations(test, row).values()]
        new = [one for one in arguments if one not in copied]
        for place, more in enumerate((1, row not in wrong, not new, len(arguments), len(new))):
            bin_[place] += more
        bin_[5].update(new)
    return tuple((depth, *found[depth][:5], tuple(sorted(found[depth][5]))) for depth in sorted(found))


def _number(pieces: list[str]) -> int:
    return int("".join(pieces))

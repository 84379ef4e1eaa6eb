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

from pomona.corpus import Corpus
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
    for example, node, fact, output in local_facts(certificate, train):
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
        for example, node, fact, output in local_facts(certificate, test):
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
    )


def local_facts(certificate: Certificate, corpus: Corpus) -> Iterator[tuple[int, int, Any, Any]]:
    """Example, node, (function, inputs) and output of every inner node whose function is not taken as given."""
    for first in range(0, len(corpus), _ROWS):
        part = corpus[first : first + _ROWS]
        names, outcomes = part.forest.names, [*part.outcomes, None]
        value: list[Any] = [outcomes[number] for number in part.values.tolist()]
        nodes = zip(part.forest.symbol.tolist(), part.forest.arity.tolist(), part.forest.links.tolist(), strict=True)
        starts = iter(part.forest.start[:: part.width].tolist())
        base, end, example = 0, next(starts), first - 1
        stack: list[Any] = []
        for node, (symbol, arity, link) in enumerate(nodes):
            if node == end:
                base, end, example, stack = node, next(starts), example + 1, []
            if link:
                value[node] = value[node - link]
            elif not arity and value[node] is None:
                value[node] = names[symbol]
            inputs = tuple(stack[len(stack) - arity :])
            del stack[len(stack) - arity :]
            stack.append(value[node])
            function = names[symbol] if certificate.by == "type" else f"node {node - base}"
            if arity and not any(fnmatch.fnmatchcase(function, pattern) for pattern in certificate.given):
                yield example, node - base, (function, inputs), value[node]

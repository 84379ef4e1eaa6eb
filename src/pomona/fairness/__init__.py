"""Fairness: does training show everything that a test needs?

    certificate = certify(train, test)             # linear time; FAIR with witnesses, or the missing facts
    check(certificate, train, test)                # test the same claims again, slowly and simply
    learned = learn(train)                         # Algorithm 2 of Geiger et al. 2019: remember every local fact
    compose_values(learned, test).right.mean()     # Algorithm 1: 1.0 if and only if the split is fair
    minimal(corpus).rows                           # the fewest examples that show everything
    mirror(train, ("MAX", (3, 7)))                 # the same training set without one fact
    certify(fold(train), fold(test))               # ListOps with its lists as transitions

    certificates    Certificate and certify          facts, tables   what every node of a corpus shows, counted
    checking        check: shares no code with it     learner         the learner that only remembers
    covering        minimal and mirror               folding         lists as chains of transitions
    copies          the number that a COPY states, and the node that it leads to

All of it needs only a corpus with a value at every inner node: any task of Pomona, or your own JSONL file.
"""

from __future__ import annotations

from pomona.fairness.certificates import Certificate, Coverage, Violation, Witness, certify
from pomona.fairness.checking import check
from pomona.fairness.copies import Copies
from pomona.fairness.covering import FairSet, minimal, mirror
from pomona.fairness.folding import fair_for, fold
from pomona.fairness.learner import ComposedValues, CompositionTree, Conflict, compose_values, learn

__all__ = [
    "Certificate",
    "ComposedValues",
    "CompositionTree",
    "Conflict",
    "Copies",
    "Coverage",
    "FairSet",
    "Violation",
    "Witness",
    "certify",
    "check",
    "compose_values",
    "fair_for",
    "fold",
    "learn",
    "minimal",
    "mirror",
]

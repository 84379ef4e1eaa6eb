"""Check the labels of a file with a prover, which does not know our tables.

    report = verify_labels(corpus, "z3", sample=500, seed=7)
    report.asked, report.disagreements, report.unknown

A labeller of `provers` labels a sample of the rows, or all of them with `sample=None`. A disagreement names the row,
the label of the file and the prover's label. Rows on which the prover runs out of time are counted as unknown.
"""

from __future__ import annotations

from collections.abc import Callable

from pomona.base.errors import SpecError
from pomona.base.randomness import random_order, stream_key
from pomona.data.corpus import Corpus
from pomona.data.label_report import Disagreement, LabelReport
from pomona.tasks.fair_nli.logic.aligned import check_shape, sentences
from pomona.tasks.fair_nli.logic.provers import Labeller, labeller


def verify_labels(
    corpus: Corpus,
    prover: str | Labeller = "z3",
    sample: int | None = 1000,
    seed: int = 0,
    *,
    progress: Callable[[int], None] | None = None,
) -> LabelReport:
    """Ask a prover for the labels of some rows; `progress(1)` is called after each."""
    asked = labeller(prover) if isinstance(prover, str) else prover
    check_shape(corpus.forest)
    if sample is not None and sample < 0:
        raise SpecError(f"sample = {sample}: 0 or more rows, or None for all")
    rows = random_order(stream_key("verify labels", seed), len(corpus))[:sample]
    rows.sort()
    disagreements, unknown = [], []
    for row in rows.tolist():
        verdict = asked.label(*sentences(corpus, row))
        label = str(corpus.outcomes[corpus.targets[row, 0]])
        if verdict.label is None:
            unknown.append((row, verdict.reason))
        elif verdict.text != label:
            disagreements.append(Disagreement(row, label, verdict.text))
        if progress is not None:
            progress(1)
    return LabelReport(asked.name, len(rows), tuple(disagreements), tuple(unknown))

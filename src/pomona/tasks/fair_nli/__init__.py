"""Fair natural language inference: sentence pairs in provably fair splits (Geiger et al. 2019).

    task      FairNLI: settings and presets, labels, ceilings, and label checks by a prover
    logic/    the fragment of English, its relations and projectivity, balanced drawing, cores, redundancy, provers
    files     the format snli

Use it through `pomona.data`: for example `generate("fair_nli/hardest")`, `verify(path, prover="z3")`. Importing this
folder registers the task.
"""

import pomona.tasks.fair_nli.task  # noqa: F401

"""Fair natural language inference: sentence pairs in provably fair splits (Geiger et al. 2019).

    task      FairNLI, its settings and presets; labels, ceilings and the prover that verification asks for
    logic/    the fragment of English, its relations and projectivity, balanced drawing, cores, redundancy, provers
    files     the format snli

Others use it through `pomona.data`: `generate("fair_nli/hardest")`, `verify(path, prover="z3")`. Importing this folder
registers the task.
"""

import pomona.tasks.fair_nli.task  # noqa: F401

"""ListOps: nested lists of digits, answered by one digit (Nangia and Bowman 2018).

    task      ListOps, its settings and presets; compiled drawing by number
    text      expressions as lines of text: parsing of whole files; errors name line and column
    files     the formats tsv (the original) and lra (Long Range Arena)

Others use it through `pomona.data`: `generate("listops/d20s")`, `read("test.tsv")`. Importing this folder registers the
task.
"""

import pomona.tasks.listops.task  # noqa: F401

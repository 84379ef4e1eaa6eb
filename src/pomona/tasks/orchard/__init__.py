"""ORCHARD: two trees, the second of which quotes nodes of the first; both are answered (Pung and Chan 2021).

    task      Orchard, its settings, splits and presets; the kinds of example in a split, and its vocabulary
    draws     compiled drawing of examples by number: trees, tokens and values
    text      examples as lines of text: parsing; errors name line and column
    files     the format orchard: train.input and train.label

Trees are grown by `pomona.trees.growing`; how a node is quoted is in `pomona.trees.links`. Importing this folder
registers the task.
"""

import pomona.tasks.orchard.task  # noqa: F401

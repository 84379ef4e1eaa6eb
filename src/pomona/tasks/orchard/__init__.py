"""ORCHARD: two trees, the second of which quotes nodes of the first; both are answered (Pung and Chan 2021).

    task      Orchard, its settings, splits and presets; which kinds of example a split has, and its words
    draws     examples by number, compiled: trees grown, spelled as tokens and written down
    text      examples as lines of text: parsing with the exact place of every fault
    files     the format orchard: train.input and train.label

Trees are grown by `pomona.trees.growing`; how a node is quoted is in `pomona.trees.links`. Importing this folder
registers the task.
"""

import pomona.tasks.orchard.task  # noqa: F401

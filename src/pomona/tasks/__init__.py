"""The tasks: one file or folder each, discovered by name, so that a new task is a new file and nothing else.

    listops/          nested lists of digits under MIN, MAX, MED and SM (Nangia and Bowman 2018)
    orchard/          two trees, the second of which quotes nodes of the first (Pung and Chan 2021)
    fair_nli/         sentence pairs in provably fair splits (Geiger et al. 2019)
    propositional     truth values of propositional sentences, in fair splits (Geiger et al. 2019)

A folder has `task` (the declaration), `files` (the formats of the task, found by `pomona.data.formats`) and whatever
else the task needs. A task imports the rooms before it and never another task.
"""

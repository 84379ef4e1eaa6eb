"""Papers: what each printed, and the recipes that measure it again.

    reproduce        Paper, Plan and the registry PAPERS; `pomona reproduce`
    side_by_side     the pieces of a paper's work, on several processes or on Ray
    claims           what a paper claims, and the verdict on each claim, computed from the cells
    results          the file of results: read, joined with new ones, written by one process at a time
    records          runs in a results file: how they were trained; earlier ones joined with new ones
    listops_2018, fair_nli_2019, orchard_2021, tre_2019      one file or folder for each paper

A paper registers with `PAPERS.add` and defines `measure(plan)`, which trains or reads runs and returns cells: one
number of the paper beside ours. The folder is discovered, so a new paper is one new file; it may import these and
the rooms above this one, never another paper. Import `reproduce`, `Paper` and `Plan` from `pomona.papers.reproduce`.
"""

"""Measures, one file for each or for a small family; the folder is discovered.

    accuracy, parse_f1, effective_depth, chain, ladder, unknown_copies     of an evaluation: answers, trees, corpus
    topographic, disentanglement, information, edit_distance, tre   of items: meanings, messages, vectors, derivations

A file registers frozen dataclasses with `MEASURES.add` (`pomona.evaluation.measure`), and `pomona ls measures`, `pomona
measure`, `pomona evaluate --measure` and the report have them by name. The computations themselves live in
`pomona.evaluation`, `pomona.shortcuts` and `pomona.representations`; they are imported when a measure is used, so
listing the measures stays quick. Import measures by name (`pm.measure("topsim", ...)`), not from here.
"""

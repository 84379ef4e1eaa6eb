"""Data: corpora of examples, where they come from, what is known of them, and files.

    corpus         Corpus and Example, by the column; `Corpus.of_trees`, keys and fingerprints
    task           what every task is, and how its splits are drawn
    answers        answers to a corpus: written, read, matched with its outcomes
    groups         examples by length, depth, operator; `statistics`: a corpus in numbers
    verification   every row read and worked out again; `sources`: a corpus by name or by file
    formats/       one module a file format; `nested_objects`: trees as JSON objects

This room may import `base` and `trees`.
"""

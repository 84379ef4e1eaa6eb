"""Examples and everything that is known of them before a model comes in.

    corpus          Corpus: many examples, column by column; content keys and fingerprints
    task, pool      Task: what a task declares; generate; the distinct draws that splits are dealt from
    formats/        reading and writing corpora; a registry of file formats
    sources         a file or a task's name, as commands take either
    answers         answers to the examples of a corpus, from files or models
    groups          rows that belong together: by depth, length, derivation
    statistics      what a corpus contains; verification: whether what it says is right (label_report: by a prover)

Imports `base` and `trees` only. What belongs to one task is in `pomona.tasks`; data asks it through `Task`'s methods.
"""

"""Inputs: a corpus in the numbers of a model. Each class of the first three modules is a Feed (`pomona.models.model`).

    sentences    Sentences, Batch: classified sentences with one tree each
    pairs        SentencePairs, PairBatch: aligned sentence pairs of `fair_nli`
    sequences    Sequences, SequenceBatch: whole texts with an answer for each tree
    schedule     TreeSchedule: the order in which the nodes of many trees are computed
    batches      which rows go into a batch together

Nothing here imports a layer or a model.
"""

"""Layers: networks that several models use. Those with a compiled loop have a twin in plain torch for GPUs and tests.

    tree_lstm       the TreeLSTM cell over whole forests, and the classifier of the ListOps models
    lstm            the LSTM over many sequences at once
    gumbel_merge    merging neighbours by straight-through Gumbel softmax (ST-Gumbel)
    soft_chart      all binary trees at once, weighted
    attention       Transformer layers and geometric attention
    decoder         answers as heads or as written tokens; greedy and beam search
    pair_heads      word vectors and classifiers of the models of pairs
    aligned_tree    composition along the aligned tree of a sentence pair

A layer may import inputs and the modules that define what models share, never a model.
"""

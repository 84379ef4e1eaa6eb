"""Models that read whole texts and give an answer for each tree, one file each; most are `SequenceModel`s."""

"""Data at any size: a split in many Parquet files, written and read by many workers, each in bounded memory.

    keys         files of keys in partitions, so that equal keys meet without one table of all of them
    draws        which draws are the rows of a split that is larger than memory
    generation   the shards themselves, the manifest, and how a killed command resumes
    digests      the fingerprint of the whole, column by column
    folder       a folder of shards as a value that `describe`, `certify` and `ladder` take in place of a corpus
    repeats      examples that shards share, within a split and between splits

The rows are those of the same split in one file, whatever the number of shards and workers: draw number i is a function
of the task, the seed and i, and of equal draws the first counts.
"""

"""One file for each verb of the command line; the file `show.py` defines the function `show`, and that is all.

The folder is discovered by `pomona.cli`. Imports of anything heavy (numba, pyarrow, scipy, torch) go inside the
function, so that `pomona --help` stays quick.
"""

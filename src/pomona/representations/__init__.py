"""Measures of representations and of the messages in emergent languages.

    tre               Tree Reconstruction Error: are vectors composed from the vectors of their parts?
    topographic       topographic similarity and RSA: do items with similar meanings have similar messages?
    disentanglement   posdis and bosdis: does each position, or symbol count, tell about one attribute?
    information       entropies, context independence, mutual information
    edit_distance     the tree edit distance of the TRE paper, and its Proposition 1

Import the modules, or the functions of `tre` from `pomona.representations.tre`. Everything here works on arrays,
lists and trees, and imports only `base`, `trees` and `data`. Torch is loaded only for a callable of the user's own.
"""

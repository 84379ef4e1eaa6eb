"""Measures of representations and of the messages in emergent languages.

    tre               Tree Reconstruction Error: are vectors composed from the vectors of their parts?
    topographic       topographic similarity and RSA: do items with similar meanings have similar messages?
    disentanglement   posdis and bosdis: does each position, or symbol count, tell about one attribute?
    information       entropies, context independence, mutual information
    edit_distance     the tree edit distance of the TRE paper, and its Proposition 1

For users: the names below, as `pm.representations.topographic_similarity`; `pm.tre` is the measure itself. Modules of
Pomona import from the files themselves. Everything here works on arrays, lists and trees, and imports only `base`,
`trees` and `data`. Torch is loaded only for a callable of the user's own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pomona.base.lazy_names import lazy_names

if TYPE_CHECKING:
    from pomona.representations.disentanglement import bosdis, posdis
    from pomona.representations.edit_distance import check_proposition_1, tree_edit_distance
    from pomona.representations.information import binned_entropy, mutual_information
    from pomona.representations.topographic import topographic_similarity
    from pomona.representations.tre import compare_fits, latent_tre, node_derivations, partial_correlation, tre_layers

__all__ = [
    "binned_entropy", "bosdis", "check_proposition_1", "compare_fits", "latent_tre", "mutual_information",
    "node_derivations", "partial_correlation", "posdis", "topographic_similarity", "tre_layers", "tree_edit_distance",
]  # fmt: skip

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "binned_entropy": "information",
        "bosdis": "disentanglement",
        "check_proposition_1": "edit_distance",
        "compare_fits": "tre",
        "latent_tre": "tre",
        "mutual_information": "information",
        "node_derivations": "tre",
        "partial_correlation": "tre",
        "posdis": "disentanglement",
        "topographic_similarity": "topographic",
        "tre_layers": "tre",
        "tree_edit_distance": "edit_distance",
    },
)

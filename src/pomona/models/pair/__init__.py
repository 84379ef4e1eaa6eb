"""Models that read two sentences and give their relation, one file each. They share `pomona.models.pair_model`."""

"""Models that read one sentence and give one answer, one file each. They share `pomona.models.sentence_model`."""

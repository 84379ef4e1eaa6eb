"""One file a measure."""

"""The measures; one file each."""

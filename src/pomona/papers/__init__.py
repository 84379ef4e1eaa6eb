"""The papers: what they printed, and the recipes that measure it again. Data only; one file each."""

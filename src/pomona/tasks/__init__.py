"""The tasks; one file each, discovered by name."""

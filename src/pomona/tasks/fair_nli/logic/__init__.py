"""Natural logic from first principles: relations, projectivity, the fair NLI fragment, provers and its data."""

"""Trackers: one file for each program that shows learning curves; see `pomona.training.tracking`."""

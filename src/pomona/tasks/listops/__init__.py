"""Listops."""

import pomona.tasks.listops.task  # noqa: F401

"""Orchard."""

import pomona.tasks.orchard.task  # noqa: F401

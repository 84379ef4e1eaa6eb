"""Fair nli."""

import pomona.tasks.fair_nli.task  # noqa: F401

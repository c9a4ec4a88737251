"""Environment variables through which the launcher reaches the processes it observes."""

from __future__ import annotations

RUN_DIR_VARIABLE = "STEPWHY_RUN_DIR"
"""Absolute path of the run directory; a process without it is not observed."""

SAMPLER_VARIABLE = "STEPWHY_SAMPLER"
"""Id of the process that may read the memory of observed ones, where the kernel restricts it."""

"""`python -m stepwhy`."""

from __future__ import annotations

import sys

if __name__ == "__main__":
    if not sys.flags.safe_path:
        del sys.path[0]  # the current folder, which Python puts first for -m

    from stepwhy.cli import main

    main()

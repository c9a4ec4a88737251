"""`python -m stepwhy`."""

from __future__ import annotations

if __name__ == "__main__":
    from _stepwhy_command import main

    main()

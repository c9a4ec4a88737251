"""`python -m stepwhy`."""

from stepwhy.cli import main

if __name__ == "__main__":
    main()

"""stepwhy: why is my training step slow, what would each fix gain, and did it?

Importing this package imports nothing else: it is loaded inside training jobs.
"""

__version__ = "0.1.0"

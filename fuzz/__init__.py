"""Damaged inputs for every importer, and what must hold whatever a file says.

`fuzz/README.md` says how to run it and how to give a new format its seeds.
"""

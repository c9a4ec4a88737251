"""Functions that numba compiles, and the arrays that they work on.

Import the functions through `stepwhy.columns.compiled`; the arrays need no compiler.
"""

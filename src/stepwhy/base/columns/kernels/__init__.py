"""Functions that numba compiles, and the arrays that they work on.

Import the functions through `stepwhy.base.columns.compiled`; the arrays need no compiler.
"""

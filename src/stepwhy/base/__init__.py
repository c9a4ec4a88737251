"""What every other room stands on: text, output, units, errors, files, child processes, redaction.

In: strings, numbers, paths. Out: the same, safe to show, to write or to run.
`columns` stores, sorts and groups millions of rows; it alone imports NumPy.
Imports: the standard library and itself, because the observer in a training process loads it.
"""

"""Compiled kernels for the loops that numpy cannot express: scanners of text and wire formats.

A kernel is a plain function in the subset of Python that numba compiles, on addresses and integers
alone. It is compiled once per machine, in a process of its own, into a shared library in the user's
cache; from then on `kernel` loads that and calls it through `ctypes`, without the interpreter's
lock (numba itself takes 0.2 s to import). Where there is no linker it is an object file, which
`llvmlite` loads. While there is none, `kernel` answers None, and whoever asked goes the slower way.

`STEPWHY_NATIVE=0` switches kernels off; `python -m stepwhy.native.build` compiles them at once.
"""

from stepwhy.native.library import Kernel, find_kernels, kernel

__all__ = ["Kernel", "find_kernels", "kernel"]

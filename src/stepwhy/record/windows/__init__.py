"""Profiler windows: when they open, what fills them, and the line clock after them."""

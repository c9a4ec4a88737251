"""Observe JAX: calls of jitted functions, compilations, and its profiler."""

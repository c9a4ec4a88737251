"""Helpers that diagnoses of several families share, and `rule`, which all of them use."""

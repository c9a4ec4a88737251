"""Diagnoses that compare the ranks of a run, or what they exchange."""

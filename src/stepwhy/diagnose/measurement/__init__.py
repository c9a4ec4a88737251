"""Diagnoses of the measurement itself: what the recorded steps do not stand for."""

"""Diagnoses of work that the training does not need."""

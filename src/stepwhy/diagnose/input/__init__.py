"""Diagnoses of steps that wait for their batches."""

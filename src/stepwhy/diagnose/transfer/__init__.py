"""Diagnoses of copies between host and devices."""

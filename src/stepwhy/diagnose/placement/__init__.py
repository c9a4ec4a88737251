"""Diagnoses of operations and variables on the wrong device."""

"""Diagnoses of what the host does while devices could compute."""

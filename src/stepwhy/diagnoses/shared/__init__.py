"""What several diagnoses need; the diagnoses themselves never import each other."""

"""What several diagnoses of the family share."""

"""stepwhy's own stored traces."""

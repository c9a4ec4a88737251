"""Try the observers with several versions of each framework."""

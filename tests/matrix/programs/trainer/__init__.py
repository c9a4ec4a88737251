"""A training that is a package: python -m trainer."""

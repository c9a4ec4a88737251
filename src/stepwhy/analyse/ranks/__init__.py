"""What ranks have recorded of each other: their collectives, stages and times."""

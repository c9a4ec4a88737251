"""The run as a whole: its start, its steps, and whether the record can show where time goes."""

"""The observed process: when observation starts and ends, and the files it writes."""

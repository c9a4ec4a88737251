"""What reduces the files of a run: processes of this machine, or a Ray cluster."""

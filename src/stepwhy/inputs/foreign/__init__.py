"""Files that no importer reads: what each is, and what to give in its place."""

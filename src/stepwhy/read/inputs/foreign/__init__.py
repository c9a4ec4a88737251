"""Files that no importer reads: what they are, and what to use instead."""

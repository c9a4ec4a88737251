"""Chrome traces of any tool: read when no stricter importer recognises the file."""

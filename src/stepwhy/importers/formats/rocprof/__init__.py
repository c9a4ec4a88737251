"""JSON results of AMD's rocprofv3 (`--output-format json`)."""

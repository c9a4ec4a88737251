"""nvprof databases (`nvprof -o FILE`)."""

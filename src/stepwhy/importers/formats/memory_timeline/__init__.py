"""PyTorch memory timelines (`export_memory_timeline`)."""

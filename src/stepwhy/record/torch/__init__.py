"""Observe PyTorch: optimizer steps, data loaders, `torch.compile`, and `torch.profiler`."""

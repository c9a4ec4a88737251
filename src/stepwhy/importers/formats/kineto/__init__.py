"""PyTorch Kineto traces (`torch.profiler`, `export_chrome_trace`)."""

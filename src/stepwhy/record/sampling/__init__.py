"""Sample an observed process from outside: CPU, memory, disk, GPUs and Python stacks."""

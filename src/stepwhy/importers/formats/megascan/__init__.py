"""Traces of MegaScan, MegatronApp's tracer for Megatron-LM."""

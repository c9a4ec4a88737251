"""Maps reading, passes and diagnoses over the inputs of a run."""

from stepwhy.engine.explain import explain

__all__ = ["explain"]

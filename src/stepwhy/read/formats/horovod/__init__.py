"""Horovod timelines (`HOROVOD_TIMELINE`)."""

from stepwhy.read.format import Format

FORMAT = Format(signals=(), after=("kineto", "sagemaker", "tf_timeline"), memory_factor=0.7)

__all__ = ["FORMAT"]

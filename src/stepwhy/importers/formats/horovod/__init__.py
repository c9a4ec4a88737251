"""Horovod timelines (`HOROVOD_TIMELINE`)."""

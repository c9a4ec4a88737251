"""Framework timelines of SageMaker Debugger: steps of the training, and fetches of batches."""

from stepwhy.read.format import Format

FORMAT = Format(
    signals=("input",),
    magic=b'"start_time_since_epoch_in_micros"',
)

__all__ = ["FORMAT"]

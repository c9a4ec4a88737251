"""TensorFlow's `RunMetadata` and `StepStats` protobufs."""

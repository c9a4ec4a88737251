"""Observe TensorFlow 2: `tf.function` calls, tracing, `tf.data` pipelines, and its profiler."""

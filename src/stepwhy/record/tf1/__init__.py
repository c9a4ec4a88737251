"""Observe TensorFlow 1-style sessions (`tf.compat.v1.Session`)."""

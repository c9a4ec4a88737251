"""TensorFlow 1 timelines (`tensorflow.python.client.timeline`)."""

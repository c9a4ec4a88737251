"""TensorBoard event files: fill levels of TensorFlow 1 queues and step rates."""

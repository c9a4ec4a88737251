"""TensorFlow's tfprof profiles (`ProfileProto`)."""

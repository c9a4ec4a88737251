"""XPlane profiles (`.xplane.pb`) of TensorFlow 2, Keras and JAX."""

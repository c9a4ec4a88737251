"""Observe Keras' `fit` on any backend."""

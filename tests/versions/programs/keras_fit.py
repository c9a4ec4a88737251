"""Two epochs of Keras' fit with validation, in Keras 3 or, with --legacy, in tf_keras."""

import sys

import numpy as np

if "--legacy" in sys.argv:
    import tf_keras as keras
else:
    import keras

STEPS = 60


def main():
    model = keras.Sequential([keras.layers.Dense(1024, activation="relu"), keras.layers.Dense(1)])
    model.compile(optimizer="adam", loss="mse")
    inputs = np.ones((STEPS // 2 * 16, 1024), np.float32)
    targets = np.ones((len(inputs), 1), np.float32)
    model.fit(
        inputs,
        targets,
        batch_size=16,
        epochs=2,
        verbose=0,
        validation_data=(inputs[:64], targets[:64]),
    )
    print("trained")


if __name__ == "__main__":
    main()

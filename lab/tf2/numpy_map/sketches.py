"""Sketches as strokes of a pen, how to draw them, and a network that recognises them."""

import itertools

import keras
import numpy as np

SIDE, STROKES, POINTS, CLASSES = 48, 4, 12, 10


def strokes(count):
    """Random walks of a pen: pixels, [sketches, strokes, points, 2], and a label each."""
    random = np.random.default_rng(0)
    moves = random.integers(-7, 8, [count, STROKES, POINTS, 2])
    moves[:, :, 0] = random.integers(0, SIDE, [count, STROKES, 2])
    places = np.clip(moves.cumsum(axis=2), 0, SIDE - 1)
    return places.astype(np.int32), random.integers(0, CLASSES, count)


class Pen:
    """Draws strokes into an image, pixel by pixel.

    Args:
        pressure: Value of a pixel that the pen touches.
        soft: Share of it that the four pixels around get.
    """

    def __init__(self, pressure=1.0, soft=0.4):
        self.pressure, self.soft = pressure, soft

    def touch(self, image, row, column):
        image[row, column] = self.pressure
        for near, beside in (
            (row - 1, column),
            (row + 1, column),
            (row, column - 1),
            (row, column + 1),
        ):
            if 0 <= near < SIDE and 0 <= beside < SIDE:
                image[near, beside] = max(image[near, beside], self.soft * self.pressure)

    def line(self, image, start, end):
        """A straight line, by Bresenham's algorithm."""
        (row, column), (last, side) = start, end
        down, right = abs(last - row), abs(side - column)
        step, turn = (1 if last > row else -1), (1 if side > column else -1)
        error = down - right
        self.touch(image, row, column)
        while (row, column) != (last, side):
            doubled = 2 * error
            if doubled > -right:
                error, row = error - right, row + step
            if doubled < down:
                error, column = error + down, column + turn
            self.touch(image, row, column)

    def draw(self, sketch):
        """The image of a sketch, [rows, columns, 1]."""
        image = np.zeros([SIDE, SIDE], np.float32)
        for stroke in sketch.tolist():
            for start, end in itertools.pairwise(stroke):
                self.line(image, start, end)
        return image[:, :, None]


def build(width):
    """Two convolutions, compiled for training."""
    model = keras.Sequential(
        [
            keras.Input([SIDE, SIDE, 1]),
            keras.layers.Conv2D(width, 5, strides=2, activation="relu"),
            keras.layers.Conv2D(2 * width, 3, strides=2, activation="relu"),
            keras.layers.GlobalAveragePooling2D(),
            keras.layers.Dense(CLASSES),
        ]
    )
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("adam", loss=loss, metrics=["accuracy"])
    return model

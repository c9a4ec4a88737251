"""Generator of PyTorch's memory timelines, both kinds."""

import json

AT_NS = 1_700_000_000_000_000_000
AT_US = AT_NS // 1000
PREEXISTING, CREATE, NEW_VERSION, DESTROY = 1, 2, 3, 4
PARAMETER, ACTIVATION, GRADIENT = 0, 4, 5

RAW = [
    [-1, PREEXISTING, 1000, PARAMETER],
    [AT_NS, CREATE, 300, ACTIVATION],
    [AT_NS + 100, CREATE, 300, ACTIVATION],
    [AT_NS + 200, CREATE, 50, GRADIENT],
    [AT_NS + 300, DESTROY, -300, ACTIVATION],
    [AT_NS + 400, NEW_VERSION, -50, GRADIENT],
    [AT_NS + 400, NEW_VERSION, 50, PARAMETER],
]


def sums(**categories):
    """The nine numbers of one time."""
    row = [0] * 9
    for name, size in categories.items():
        row[1 + {"parameter": PARAMETER, "activation": ACTIVATION}[name]] = size
    return row


SUMS = [
    [AT_US, AT_US + 5, AT_US + 9],
    [sums(parameter=1000), sums(parameter=1000, activation=600), sums(parameter=1600)],
]


def seeds():
    """A file of each kind."""
    return [
        ("memory.raw.json", json.dumps(RAW).encode()),
        ("memory.json", json.dumps(SUMS).encode()),
    ]

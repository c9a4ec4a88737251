"""Trains on distance maps that were computed once, and lie in a file."""

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np
import segmentation
import torch
from torch.utils.data import Dataset


class Images(Dataset):
    def __init__(self, images, path):
        self.images = images
        self.distances = np.load(path, mmap_mode="r")

    def __len__(self):
        return len(self.images)

    def __getitem__(self, i):
        return self.images[i], self.distances[i].copy()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--side", type=int, default=48, help="pixels; 166: the slow one")
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()

    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "distances.npy"
        images, masks = segmentation.load(options.side)
        start = time.perf_counter()
        np.save(path, np.stack([segmentation.distance_map(mask) for mask in masks]))
        print(f"{len(masks)} distance maps computed once in {time.perf_counter() - start:.1f} s")
        segmentation.train(Images(images, path), options.steps, options.workers)


if __name__ == "__main__":
    main()

"""Synthetic microscopy set on disk, read the way the U-Net paper describes it."""

import os
import tempfile

import numpy as np
import torch
from PIL import Image
from scipy import ndimage
from torch.utils.data import Dataset

SIZE = 64


def draw_cells(rng, size=SIZE):
    yy, xx = np.mgrid[0:size, 0:size]
    ids = np.zeros((size, size), np.uint8)
    for k in range(1, rng.integers(16, 24)):
        cy, cx = rng.uniform(4, size - 4, 2)
        a, b = rng.uniform(3, 6, 2)
        blob = ((yy - cy) / a) ** 2 + ((xx - cx) / b) ** 2 < 1
        ids[blob & (ids == 0)] = k
    img = 60 + 110 * ndimage.gaussian_filter((ids > 0).astype(float), 1.5)
    img += 30 * ndimage.gaussian_filter(rng.standard_normal((size, size)), 8)
    img += 12 * rng.standard_normal((size, size))
    return np.clip(img, 0, 255).astype(np.uint8), ids


def make_folder(n, seed=0):
    root = tempfile.mkdtemp(prefix="cells_")
    rng = np.random.default_rng(seed)
    for i in range(n):
        img, ids = draw_cells(rng)
        Image.fromarray(img).save(os.path.join(root, f"{i:03d}_img.png"))
        Image.fromarray(ids).save(os.path.join(root, f"{i:03d}_ids.png"))
    return root


def border_weights(ids, w0=5.0, sigma=5.0):
    """w0 * exp(-(d1 + d2)^2 / 2 sigma^2) with the distances to the two nearest cells."""
    dist = [ndimage.distance_transform_edt(ids != k) for k in np.unique(ids) if k > 0]
    if len(dist) < 2:
        return np.ones(ids.shape, np.float32)
    dist = np.sort(np.stack(dist), axis=0)
    w = 1.0 + w0 * np.exp(-((dist[0] + dist[1]) ** 2) / (2 * sigma**2)) * (ids == 0)
    return w.astype(np.float32)


class CellFolder(Dataset):
    def __init__(self, root, flip=True):
        self.flip = flip
        names = sorted(f[:3] for f in os.listdir(root) if f.endswith("_img.png"))
        self.images, self.ids = [], []
        for n in names:
            self.images.append(np.array(Image.open(os.path.join(root, n + "_img.png"))))
            self.ids.append(np.array(Image.open(os.path.join(root, n + "_ids.png"))))
        self.weights = [border_weights(i) for i in self.ids]

    def __len__(self):
        return len(self.images)

    def __getitem__(self, i):
        img = self.images[i].astype(np.float32) / 255.0
        mask = (self.ids[i] > 0).astype(np.float32)
        weight = self.weights[i]
        item = np.stack([(img - img.mean()) / img.std(), mask, weight])
        if self.flip and torch.rand(()) < 0.5:
            item = item[:, :, ::-1].copy()
        return torch.from_numpy(item)

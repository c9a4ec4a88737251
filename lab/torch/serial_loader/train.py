"""Trains a classifier on photos that are decoded and augmented when a batch needs them."""

import argparse
import statistics
import time
import zlib

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

SIDE, CROP, CLASSES = 160, 128, 10


class Photos(Dataset):
    """Compressed photos, as they would lie in files; each is cropped and flipped at random."""

    def __init__(self, count):
        random = np.random.default_rng(0)
        blocks = random.integers(0, 256, [count, SIDE // 8, SIDE // 8, 3], np.uint8)
        self.files = [zlib.compress(b.repeat(8, 0).repeat(8, 1).tobytes()) for b in blocks]
        self.labels = random.integers(0, CLASSES, count)

    def __len__(self):
        return len(self.files)

    def __getitem__(self, i):
        pixels = np.frombuffer(zlib.decompress(self.files[i]), np.uint8)
        image = self.augment(pixels.reshape(SIDE, SIDE, 3).astype(np.float32) / 255)
        return torch.from_numpy(image.transpose(2, 0, 1).copy()), self.labels[i]

    def augment(self, image):
        y, x = torch.randint(SIDE - CROP, (2,)).tolist()
        image = image[y : y + CROP, x : x + CROP]
        if torch.rand(()) < 0.5:
            image = image[:, ::-1]
        contrast, brightness = (torch.rand(2) * 0.4 + torch.tensor([0.8, -0.2])).tolist()
        return np.clip((image - image.mean()) * contrast + image.mean() + brightness, 0, 1)


class Network(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.features = nn.Sequential(
            nn.AvgPool2d(2),
            nn.Conv2d(3, width, 5, stride=4),
            nn.ReLU(),
            nn.Conv2d(width, width, 3, stride=2),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(2),
        )
        self.classifier = nn.Linear(4 * width, CLASSES)

    def forward(self, images):
        return self.classifier(self.features(images).flatten(1))


class Trainer:
    def __init__(self, options):
        self.options = options
        self.model = Network(options.width)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-3)
        self.loss = nn.CrossEntropyLoss()
        self.loader = DataLoader(
            Photos(640),
            options.batch,
            shuffle=True,
            num_workers=options.workers,
            persistent_workers=options.workers > 0,
        )
        self.times = []

    def step(self, images, labels):
        self.optimizer.zero_grad()
        loss = self.loss(self.model(images), labels)
        loss.backward()
        self.optimizer.step()
        return loss

    def run(self):
        start = time.perf_counter()
        while len(self.times) < self.options.steps:
            for images, labels in self.loader:
                loss = self.step(images, labels)
                self.times.append(time.perf_counter() - start)
                start = time.perf_counter()
                if len(self.times) % 20 == 0:
                    print(f"step {len(self.times):3d}  loss {loss.item():.3f}", flush=True)
        median = statistics.median(self.times[5:])
        print(f"{self.options.batch / median:.0f} photos/s, median step {1000 * median:.1f} ms")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--width", type=int, default=12)
    parser.add_argument("--workers", type=int, default=0)
    Trainer(parser.parse_args()).run()


if __name__ == "__main__":
    main()

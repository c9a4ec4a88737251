"""Trains a small language model, and keeps its latest state in a file to resume from."""

import argparse
import statistics
import tempfile
import time
from pathlib import Path

import torch
from torch import nn

VOCABULARY = 4000


class Model(nn.Module):
    def __init__(self, width, layers):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, width)
        layer = nn.TransformerEncoderLayer(width, 4, 2 * width, batch_first=True, dropout=0.0)
        self.encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.output = nn.Linear(width, VOCABULARY)

    def forward(self, tokens):
        return self.output(self.encoder(self.embedding(tokens)))


class Trainer:
    def __init__(self, options, folder):
        self.options, self.path = options, Path(folder) / "last.pt"
        self.model = Model(options.width, options.layers)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-4, fused=True)
        self.random = torch.Generator().manual_seed(0)

    def batch(self):
        size = (self.options.batch, self.options.length + 1)
        tokens = torch.randint(0, VOCABULARY, size, generator=self.random)
        return tokens[:, :-1], tokens[:, 1:]

    def step(self):
        tokens, targets = self.batch()
        self.optimizer.zero_grad()
        logits = self.model(tokens)
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten())
        loss.backward()
        self.optimizer.step()
        return loss

    def save(self, step):
        state = {
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "step": step,
        }
        torch.save(state, self.path)

    def train(self):
        times = []
        for step in range(self.options.steps):
            start = time.perf_counter()
            loss = self.step()
            if step % self.options.save_every == 0:
                self.save(step)
            times.append(time.perf_counter() - start)
            if step % 10 == 0:
                print(f"step {step:3d}  loss {loss.item():.3f}", flush=True)
        print(f"mean step {1000 * statistics.mean(times[5:] or times):.1f} ms")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--save-every", type=int, default=500, help="steps")
    parser.add_argument("--batch", type=int, default=2)
    parser.add_argument("--length", type=int, default=16)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--layers", type=int, default=4)
    options = parser.parse_args()

    torch.set_num_threads(1)  # the other core is for the file system
    with tempfile.TemporaryDirectory() as folder:
        Trainer(options, folder).train()


if __name__ == "__main__":
    main()

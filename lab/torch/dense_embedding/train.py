"""Learns vectors of songs from playlists: songs that are played together have similar vectors."""

import argparse
import statistics
import time

import torch
from torch import nn


class Playlists:
    """Pairs of neighbouring songs, with random other songs."""

    def __init__(self, songs, others=8):
        self.songs, self.others = songs, others
        self.random = torch.Generator().manual_seed(0)

    def batch(self, size):
        """Songs, their neighbours, and songs that are none."""
        first = torch.randint(0, self.songs - 1, [size], generator=self.random)
        others = torch.randint(0, self.songs, [size, self.others], generator=self.random)
        return first, first + 1, others


class SongVectors(nn.Module):
    """Two tables of vectors: of a song, and of its neighbours."""

    def __init__(self, songs, width, sparse):
        super().__init__()
        self.song = nn.Embedding(songs, width, sparse=sparse)
        self.neighbour = nn.Embedding(songs, width, sparse=sparse)
        nn.init.normal_(self.song.weight, std=0.1)
        nn.init.normal_(self.neighbour.weight, std=0.1)

    def forward(self, songs, neighbours, others):
        song = self.song(songs)
        near = (song * self.neighbour(neighbours)).sum(1)
        far = torch.einsum("bw,bow->bo", song, self.neighbour(others))
        return -(nn.functional.logsigmoid(near) + nn.functional.logsigmoid(-far).sum(1)).mean()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=80)
    parser.add_argument("--batch", type=int, default=512)
    parser.add_argument("--songs", type=int, default=60_000)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--gradients", choices=["dense", "sparse"], default="dense")
    options = parser.parse_args()

    torch.manual_seed(0)
    sparse = options.gradients == "sparse"
    model = SongVectors(options.songs, options.width, sparse)
    make = torch.optim.SparseAdam if sparse else torch.optim.Adam
    optimizer = make(model.parameters(), lr=1e-3)
    playlists, times = Playlists(options.songs), []
    for step in range(options.steps):
        start = time.perf_counter()
        loss = model(*playlists.batch(options.batch))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        times.append(time.perf_counter() - start)
        if step % 20 == 19:
            print(f"step {step:3d}  loss {loss.item():.4f}", flush=True)
    print(f"median step {1000 * statistics.median(times[5:] or times):.1f} ms")


if __name__ == "__main__":
    main()

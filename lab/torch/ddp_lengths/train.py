"""Trains a text classifier on two processes, each with its part of the reviews."""

import argparse
import os
import statistics
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.nn.parallel import DistributedDataParallel

VOCABULARY = 2000


def read_reviews(count):
    """Reviews as lists of tokens, sorted by length as the data set is."""
    random = torch.Generator().manual_seed(0)
    lengths = torch.randint(8, 129, (count,), generator=random).sort().values
    return [torch.randint(0, VOCABULARY, (int(n),), generator=random) for n in lengths]


def share_of(reviews, rank, ranks, *, contiguous):
    """The reviews of one process."""
    if contiguous:
        each = len(reviews) // ranks
        return reviews[rank * each : (rank + 1) * each]
    return reviews[rank::ranks]


class Classifier(nn.Module):
    def __init__(self, width, layers):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, width, padding_idx=0)
        layer = nn.TransformerEncoderLayer(width, 4, 4 * width, batch_first=True, dropout=0.0)
        self.encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.output = nn.Linear(width, 2)

    def forward(self, tokens):
        return self.output(self.encoder(self.embedding(tokens)).mean(dim=1))


class Trainer:
    def __init__(self, options, rank):
        torch.manual_seed(1)
        torch.set_num_threads(1)
        self.options, self.rank = options, rank
        self.model = DistributedDataParallel(Classifier(options.width, options.layers))
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-4, fused=True)
        reviews = read_reviews(16 * options.batch)
        self.reviews = share_of(reviews, rank, 2, contiguous=options.contiguous)
        self.random = torch.Generator().manual_seed(rank)

    def batch(self):
        chosen = torch.randint(0, len(self.reviews), (self.options.batch,), generator=self.random)
        reviews = [self.reviews[i] for i in chosen]
        tokens = nn.utils.rnn.pad_sequence(reviews, batch_first=True)
        return tokens, torch.tensor([int(r[0]) % 2 for r in reviews])

    def step(self):
        tokens, labels = self.batch()
        loss = nn.functional.cross_entropy(self.model(tokens), labels)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss

    def train(self):
        times = []
        for step in range(self.options.steps):
            start = time.perf_counter()
            loss = self.step()
            times.append(time.perf_counter() - start)
            if self.rank == 0 and step % 20 == 0:
                print(f"step {step:3d}  loss {loss.item():.3f}", flush=True)
        if self.rank == 0:
            print(f"median step {1000 * statistics.median(times):.1f} ms")


def run(rank, options):
    dist.init_process_group("gloo", rank=rank, world_size=2)
    Trainer(options, rank).train()
    dist.destroy_process_group()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=80)
    parser.add_argument("--contiguous", action="store_true", help="split the data in halves")
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--layers", type=int, default=2)
    options = parser.parse_args()

    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", "29531")
    mp.spawn(run, args=(options,), nprocs=2)


if __name__ == "__main__":
    main()

"""Trains a text classifier on two processes, with batches of reviews of similar length."""

import argparse
import os
import random
import statistics
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset

VOCABULARY = 2000


class Reviews(Dataset):
    """Token sequences of 16 to 256 tokens, each with a label."""

    def __init__(self, count):
        self.generator = torch.Generator().manual_seed(0)
        self.lengths = torch.randint(16, 257, (count,), generator=self.generator).tolist()
        self.tokens = [self.sentence(length) for length in self.lengths]

    def sentence(self, length):
        return torch.randint(1, VOCABULARY, (length,), generator=self.generator)

    def __len__(self):
        return len(self.tokens)

    def __getitem__(self, index):
        return self.tokens[index], int(self.tokens[index][0]) % 2


class LengthBuckets:
    """Batches of similar length, so that little is padded."""

    def __init__(self, lengths, options, rank):
        order = sorted(range(len(lengths)), key=lengths.__getitem__)
        size = 2 * options.batch
        self.buckets = [order[i : i + size] for i in range(0, len(order) - size + 1, size)]
        self.rank = rank
        # With a seed for each rank, the ranks draw buckets of different lengths.
        self.random = random.Random(0 if options.same_buckets else rank)

    def __len__(self):
        return len(self.buckets)

    def __iter__(self):
        for bucket in self.random.sample(self.buckets, len(self.buckets)):
            yield bucket[self.rank :: 2]


class Classifier(nn.Module):
    def __init__(self, width, layers):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, width, padding_idx=0)
        layer = nn.TransformerEncoderLayer(width, 4, 4 * width, batch_first=True, dropout=0.0)
        self.encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.output = nn.Linear(width, 2)

    def forward(self, tokens):
        return self.output(self.encoder(self.embedding(tokens)).mean(dim=1))


def collate(samples):
    tokens, labels = zip(*samples, strict=True)
    return nn.utils.rnn.pad_sequence(tokens, batch_first=True), torch.tensor(labels)


def batches_of(loader, count):
    """Batches of as many epochs as needed."""
    drawn = 0
    while True:
        for batch in loader:
            if drawn == count:
                return
            drawn += 1
            yield batch


def train(rank, options):
    torch.manual_seed(1)
    torch.set_num_threads(1)
    reviews = Reviews(128 * options.batch)
    sampler = LengthBuckets(reviews.lengths, options, rank)
    loader = DataLoader(reviews, batch_sampler=sampler, collate_fn=collate)
    model = DistributedDataParallel(Classifier(options.width, options.layers))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    criterion = nn.CrossEntropyLoss()

    times, start = [], time.perf_counter()
    for step, (tokens, labels) in enumerate(batches_of(loader, options.steps)):
        loss = criterion(model(tokens), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        times.append(time.perf_counter() - start)
        start = time.perf_counter()
        if rank == 0 and step % 20 == 0:
            print(f"step {step:3d}  loss {loss.item():.3f}", flush=True)
    if rank == 0:
        print(f"mean step {1000 * statistics.mean(times):.1f} ms")


def run(rank, options):
    dist.init_process_group("gloo", rank=rank, world_size=2)
    train(rank, options)
    dist.destroy_process_group()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--same-buckets", action="store_true", help="all ranks, in each step")
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--layers", type=int, default=2)
    options = parser.parse_args()

    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", "29537")
    mp.spawn(run, args=(options,), nprocs=2)


if __name__ == "__main__":
    main()

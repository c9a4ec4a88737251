"""Sentence-pair regression with DDP on CPU (gloo, 2 ranks) and gradient accumulation."""

import os
import time
from contextlib import nullcontext

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

WORLD = 2
VOCAB, DIM, LEN = 12000, 128, 12
MICRO_BATCH, ACCUM = 8, 8
UPDATES = 120


def make_pairs(n=20000):
    g = torch.Generator().manual_seed(0)
    a = torch.randint(1, VOCAB, (n, LEN), generator=g)
    keep = torch.rand(n, LEN, generator=g) < torch.rand(n, 1, generator=g)
    b = torch.where(keep, a, torch.randint(1, VOCAB, (n, LEN), generator=g))
    return TensorDataset(a, b, keep.float().mean(1))


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(VOCAB, DIM)
        self.ff = nn.Sequential(nn.Linear(DIM, 256), nn.ReLU(), nn.Linear(256, DIM))
        self.head = nn.Sequential(nn.Linear(3 * DIM, 128), nn.ReLU(), nn.Linear(128, 1))

    def encode(self, x):
        e = self.emb(x)
        return (e + self.ff(e)).mean(1)

    def forward(self, a, b):
        u, v = self.encode(a), self.encode(b)
        return self.head(torch.cat([u * v, (u - v).abs(), u + v], 1)).squeeze(1)


def cycle(loader, sampler):
    epoch = 0
    while True:
        sampler.set_epoch(epoch)
        yield from loader
        epoch += 1


def run(rank, port):
    os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"] = "127.0.0.1", str(port)
    dist.init_process_group("gloo", rank=rank, world_size=WORLD)
    torch.manual_seed(0)
    torch.set_num_threads(1)
    data = make_pairs()
    sampler = DistributedSampler(data, WORLD, rank, shuffle=True, seed=1)
    batches = cycle(
        DataLoader(data, batch_size=MICRO_BATCH, sampler=sampler, drop_last=True), sampler
    )
    model = DDP(Encoder())
    opt = torch.optim.SGD(model.parameters(), lr=0.2, momentum=0.9)
    crit = nn.MSELoss()

    dist.barrier()
    start = time.time()
    for update in range(1, UPDATES + 1):
        opt.zero_grad()
        total = 0.0
        for micro in range(ACCUM):
            a, b, y = next(batches)
            with model.no_sync() if micro < ACCUM - 1 else nullcontext():
                loss = crit(model(a, b), y) / ACCUM
                loss.backward()
            total += loss.item()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        if update % 20 == 0:
            t = torch.tensor([total])
            dist.all_reduce(t)
            if rank == 0:
                print(
                    f"update {update} loss {t.item() / WORLD:.6f} {(time.time() - start) / update * 1000:.2f} ms/step",
                    flush=True,
                )
    dist.destroy_process_group()


if __name__ == "__main__":
    mp.start_processes(run, args=(29000 + os.getpid() % 2000,), nprocs=WORLD, start_method="fork")

"""Click-through-rate model (wide embeddings + MLP), data parallel over two CPU
processes with gloo. Gradients are accumulated over several micro batches to get
a large effective batch.

The program starts its own workers.
"""
import os
import tempfile
import time
from contextlib import nullcontext

import numpy as np
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

WORLD_SIZE = 2
N_ROWS = 80_000
N_DENSE = 13
TABLES = [60_000, 30_000, 20_000, 5_000]
DIM = 24
MICRO_BATCH = 64
ACCUM_STEPS = 8
EPOCHS = 2


def make_dataset(seed=0):
    g = torch.Generator().manual_seed(seed)
    dense = torch.randn(N_ROWS, N_DENSE, generator=g)
    cats = torch.stack([
        (torch.rand(N_ROWS, generator=g) ** 3 * size).long() for size in TABLES], dim=1)
    w = torch.randn(N_DENSE, generator=g)
    score = dense @ w * 0.5 + torch.sin(cats.float()).sum(1)
    y = (torch.sigmoid(score) > torch.rand(N_ROWS, generator=g)).float()
    return TensorDataset(dense, cats, y)


class CTRModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.embeddings = nn.ModuleList(nn.Embedding(n, DIM) for n in TABLES)
        for e in self.embeddings:
            nn.init.normal_(e.weight, std=0.05)
        self.bottom = nn.Sequential(nn.Linear(N_DENSE, 64), nn.ReLU(), nn.Linear(64, DIM))
        self.top = nn.Sequential(
            nn.Linear(DIM * (len(TABLES) + 1), 256), nn.ReLU(),
            nn.Linear(256, 128), nn.ReLU(),
            nn.Linear(128, 1))

    def forward(self, dense, cats):
        feats = [self.bottom(dense)]
        feats += [e(cats[:, i]) for i, e in enumerate(self.embeddings)]
        return self.top(torch.cat(feats, dim=1)).squeeze(1)


def worker(rank, init_file):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{init_file}",
                            rank=rank, world_size=WORLD_SIZE)
    torch.manual_seed(42)
    dataset = make_dataset()
    sampler = DistributedSampler(dataset, WORLD_SIZE, rank, shuffle=True, drop_last=True)
    loader = DataLoader(dataset, batch_size=MICRO_BATCH, sampler=sampler, drop_last=True)

    model = DDP(CTRModel())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)

    times, step, running = [], 0, torch.zeros(())
    for epoch in range(EPOCHS):
        sampler.set_epoch(epoch)
        t0 = time.perf_counter()
        for i, (dense, cats, y) in enumerate(loader):
            last_micro = (i + 1) % ACCUM_STEPS == 0
            with nullcontext() if last_micro else model.no_sync():
                loss = F.binary_cross_entropy_with_logits(model(dense, cats), y)
                (loss / ACCUM_STEPS).backward()
            running += loss.detach() / ACCUM_STEPS

            if last_micro:
                optimizer.step()
                optimizer.zero_grad()
                step += 1
                now = time.perf_counter()
                times.append(now - t0)
                t0 = now
                if step % 20 == 0:
                    if rank == 0:
                        print(f"epoch {epoch} step {step}: loss {running.item() / 20:.4f}", flush=True)
                    running.zero_()
        optimizer.zero_grad()

    if rank == 0:
        print(f"ms per step: {np.median(times[10:]) * 1e3:.2f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as tmp:
        mp.spawn(worker, args=(os.path.join(tmp, "init"),), nprocs=WORLD_SIZE)

"""Implicit-feedback recommender trained data-parallel on two CPU processes."""
import argparse
import os
import socket
import time

import numpy as np
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP


def make_interactions(users, items, count, seed=0):
    rng = np.random.default_rng(seed)
    u_lat = rng.normal(0, 1, size=(users, 8)).astype(np.float32)
    i_lat = rng.normal(0, 1, size=(items, 8)).astype(np.float32)
    u = (users * rng.random(count) ** 2).astype(np.int64)
    i = (items * rng.random(count) ** 3).astype(np.int64)
    score = (u_lat[u] * i_lat[i]).sum(1) / 2.0 + u_lat[u, 0] + 1.5 * i_lat[i, 1]
    y = (rng.random(count) < 1.0 / (1.0 + np.exp(-score))).astype(np.float32)
    return torch.from_numpy(u), torch.from_numpy(i), torch.from_numpy(y)


class TwoTower(nn.Module):
    def __init__(self, users, items, dim):
        super().__init__()
        self.user = nn.Embedding(users, dim)
        self.item = nn.Embedding(items, dim)
        nn.init.normal_(self.user.weight, std=0.1)
        nn.init.normal_(self.item.weight, std=0.1)
        self.user_mlp = nn.Sequential(nn.Linear(dim, 128), nn.ReLU(), nn.Linear(128, 64))
        self.item_mlp = nn.Sequential(nn.Linear(dim, 128), nn.ReLU(), nn.Linear(128, 64))
        self.cross = nn.Sequential(nn.Linear(64 * 3, 128), nn.ReLU(), nn.Linear(128, 1))

    def forward(self, u, i):
        a = self.user_mlp(self.user(u))
        b = self.item_mlp(self.item(i))
        return self.cross(torch.cat([a, b, a * b], dim=1)).squeeze(1)


def worker(rank, args, port):
    os.environ["MASTER_ADDR"] = "127.0.0.1"
    os.environ["MASTER_PORT"] = str(port)
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=args.world)
    torch.manual_seed(0)

    u, i, y = make_interactions(args.users, args.items, args.interactions)
    u, i, y = u[rank::args.world], i[rank::args.world], y[rank::args.world]
    model = DDP(TwoTower(args.users, args.items, args.dim))
    opt = torch.optim.Adagrad(model.parameters(), lr=args.lr, fused=True)

    gen = torch.Generator().manual_seed(100 + rank)
    perm, pos = torch.randperm(len(y), generator=gen), 0
    start = time.time()
    for step in range(1, args.steps + 1):
        opt.zero_grad()
        total = 0.0
        for micro in range(args.accumulate):
            if pos + args.micro_batch > len(perm):
                perm, pos = torch.randperm(len(y), generator=gen), 0
            idx = perm[pos:pos + args.micro_batch]
            pos += args.micro_batch
            logits = model(u[idx], i[idx])
            loss = F.binary_cross_entropy_with_logits(logits, y[idx]) / args.accumulate
            loss.backward()
            total += loss.item()
        opt.step()
        if rank == 0 and step % 20 == 0:
            print(f"step {step} loss {total:.4f} elapsed {time.time() - start:.2f}s", flush=True)
    dist.barrier()
    dist.destroy_process_group()


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--steps", type=int, default=180)
    p.add_argument("--users", type=int, default=60000)
    p.add_argument("--items", type=int, default=25000)
    p.add_argument("--dim", type=int, default=32)
    p.add_argument("--interactions", type=int, default=1500000)
    p.add_argument("--micro-batch", type=int, default=256)
    p.add_argument("--accumulate", type=int, default=8)
    p.add_argument("--lr", type=float, default=0.03)
    p.add_argument("--world", type=int, default=2)
    args = p.parse_args()
    mp.spawn(worker, args=(args, free_port()), nprocs=args.world, join=True)


if __name__ == "__main__":
    main()

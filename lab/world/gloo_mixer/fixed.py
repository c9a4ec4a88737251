"""Data-parallel MLP-Mixer over gloo, two processes on one box.

We do not use DDP because some of our blocks are skipped at random (stochastic
depth) and find_unused_parameters gave us trouble; instead every rank averages
its own gradients after backward, like in the "Writing distributed
applications" tutorial.
"""
import os
import socket
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn as nn
import torch.nn.functional as F

CFG = dict(depth=24, dim=32, tokens=16, patch=8, classes=10, local_batch=8, steps=220, lr=5e-4, drop_path=0.0)


class MixerBlock(nn.Module):
    def __init__(self, dim, tokens):
        super().__init__()
        self.norm1 = nn.LayerNorm(dim)
        self.tok1 = nn.Linear(tokens, 2 * tokens)
        self.tok2 = nn.Linear(2 * tokens, tokens)
        self.norm2 = nn.LayerNorm(dim)
        self.ch1 = nn.Linear(dim, 2 * dim)
        self.ch2 = nn.Linear(2 * dim, dim)

    def forward(self, x):
        y = self.norm1(x).transpose(1, 2)
        x = x + self.tok2(F.gelu(self.tok1(y))).transpose(1, 2)
        return x + self.ch2(F.gelu(self.ch1(self.norm2(x))))


class Mixer(nn.Module):
    def __init__(self, depth, dim, tokens, patch, classes):
        super().__init__()
        self.embed = nn.Conv2d(3, dim, patch, patch)
        self.blocks = nn.ModuleList([MixerBlock(dim, tokens) for _ in range(depth)])
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, classes)

    def forward(self, x):
        x = self.embed(x).flatten(2).transpose(1, 2)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x).mean(1))


def average_gradients(model):
    size = float(dist.get_world_size())
    for param in model.parameters():
        if param.grad is None:
            param.grad = torch.zeros_like(param)
    grads = [p.grad for p in model.parameters()]
    flat = torch.cat([g.reshape(-1) for g in grads])
    dist.all_reduce(flat, op=dist.ReduceOp.SUM)
    flat /= size
    for g, f in zip(grads, flat.split([g.numel() for g in grads])):
        g.copy_(f.view_as(g))


def synthetic_shard(rank, n=512):
    g = torch.Generator().manual_seed(100 + rank)
    y = torch.randint(0, CFG["classes"], (n,), generator=g)
    proto = torch.randn(CFG["classes"], 3, 32, 32, generator=torch.Generator().manual_seed(7))
    return proto[y] * 0.5 + torch.randn(n, 3, 32, 32, generator=g), y


def worker(rank, world, port):
    os.environ["MASTER_ADDR"] = "127.0.0.1"
    os.environ["MASTER_PORT"] = str(port)
    torch.set_num_threads(1)  # one core per rank
    dist.init_process_group("gloo", rank=rank, world_size=world)
    torch.manual_seed(0)  # same init everywhere
    model = Mixer(CFG["depth"], CFG["dim"], CFG["tokens"], CFG["patch"], CFG["classes"])
    opt = torch.optim.AdamW(model.parameters(), lr=CFG["lr"])
    x, y = synthetic_shard(rank)
    g = torch.Generator().manual_seed(rank)
    start = time.time()
    for step in range(1, CFG["steps"] + 1):
        idx = torch.randint(0, len(x), (CFG["local_batch"],), generator=g)
        loss = F.cross_entropy(model(x[idx]), y[idx])
        opt.zero_grad()
        loss.backward()
        average_gradients(model)
        opt.step()
        if rank == 0 and step % 3 == 0:
            print(f"rank0 step {step} loss {loss.item():.4f} ({time.time() - start:.1f}s)", flush=True)
    dist.barrier()
    dist.destroy_process_group()


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


if __name__ == "__main__":
    world = 2
    mp.spawn(worker, args=(world, free_port()), nprocs=world)

"""Word-level language model, two data parallel CPU ranks over gloo."""
import os
import socket
from contextlib import nullcontext

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP

STEPS = int(os.environ.get("STEPS", "300"))
WORLD, ACCUM, BATCH, SEQ = 2, 4, 4, 16
VOCAB, DIM = 4000, 192


def make_corpus(n, gen):
    """A noisy first-order chain: each word has one likely successor."""
    succ = torch.randperm(VOCAB, generator=gen)
    zipf = 1.0 / torch.arange(1, VOCAB + 1).float()
    noise = torch.multinomial(zipf, n, replacement=True, generator=gen)
    keep = torch.rand(n, generator=gen) < 0.6
    words = [0]
    for k, w in zip(keep.tolist(), noise.tolist()):
        words.append(int(succ[words[-1]]) if k else w)
    return torch.tensor(words)


class LM(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(VOCAB, DIM)
        self.rnn = nn.GRU(DIM, DIM, batch_first=True)
        self.norm = nn.LayerNorm(DIM)
        self.out = nn.Linear(DIM, VOCAB)

    def forward(self, x):
        h, _ = self.rnn(self.emb(x))
        return self.out(self.norm(h))


def micro_batch(corpus, gen):
    start = torch.randint(0, len(corpus) - SEQ - 1, (BATCH,), generator=gen)
    idx = start[:, None] + torch.arange(SEQ + 1)
    seq = corpus[idx]
    return seq[:, :-1], seq[:, 1:]


def run(rank, port):
    os.environ["MASTER_ADDR"] = "127.0.0.1"
    os.environ["MASTER_PORT"] = str(port)
    dist.init_process_group("gloo", rank=rank, world_size=WORLD)
    torch.manual_seed(0)
    corpus = make_corpus(20000, torch.Generator().manual_seed(1))
    gen = torch.Generator().manual_seed(100 + rank)

    model = DDP(LM())
    opt = torch.optim.SGD(model.parameters(), lr=1.0, momentum=0.9)

    for step in range(1, STEPS + 1):
        opt.zero_grad()
        total = 0.0
        for micro in range(ACCUM):
            x, y = micro_batch(corpus, gen)
            with nullcontext() if micro == ACCUM - 1 else model.no_sync():
                logits = model(x)
                loss = F.cross_entropy(logits.flatten(0, 1), y.flatten()) / ACCUM
                loss.backward()
            total = total + loss.detach()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()

        if step % 25 == 0 or step == STEPS:
            dist.all_reduce(total)
            if rank == 0:
                print(f"step {step} loss {total.item() / WORLD:.4f}", flush=True)

    dist.barrier()
    dist.destroy_process_group()


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


if __name__ == "__main__":
    mp.spawn(run, args=(free_port(),), nprocs=WORLD)

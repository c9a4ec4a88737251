"""Sequence-to-sequence sorting of short digit strings with scheduled sampling."""
import os

import torch
import torch.nn as nn
import torch.nn.functional as F

STEPS = int(os.environ.get("STEPS", "500"))
LENGTH, SYMBOLS, DIM, BATCH = 12, 16, 96, 64
START = SYMBOLS


def make_batch(gen):
    src = torch.randint(0, SYMBOLS, (BATCH, LENGTH), generator=gen)
    return src, src.sort(1).values


class Seq2Seq(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(SYMBOLS + 1, DIM)
        self.encoder = nn.GRU(DIM, DIM, batch_first=True, bidirectional=True)
        self.bridge = nn.Linear(2 * DIM, DIM)
        self.cell = nn.GRUCell(2 * DIM, DIM)
        self.query = nn.Linear(DIM, DIM)
        self.out = nn.Linear(2 * DIM, SYMBOLS)

    def encode(self, src):
        enc, last = self.encoder(self.emb(src))
        memory = self.bridge(enc)
        return memory, torch.tanh(last.mean(0))

    def step(self, token, context, h, memory):
        h = self.cell(torch.cat([self.emb(token), context], 1), h)
        att = (memory @ self.query(h).unsqueeze(2)).squeeze(2) / DIM ** 0.5
        context = (att.softmax(1).unsqueeze(1) @ memory).squeeze(1)
        return self.out(torch.cat([h, context], 1)), context, h

    def forward(self, src, tgt, own_prob):
        memory, h = self.encode(src)
        context = memory.mean(1)
        token = torch.full((len(src),), START, dtype=torch.long)
        logits = []
        for t in range(LENGTH):
            step_logits, context, h = self.step(token, context, h, memory)
            logits.append(step_logits)
            own = torch.rand(len(src)) < own_prob
            token = torch.where(own, step_logits.detach().argmax(1), tgt[:, t])
        return torch.stack(logits, 1)


@torch.no_grad()
def exact_match(model, gen):
    model.eval()
    src, tgt = make_batch(gen)
    pred = model(src, tgt, 1.0).argmax(2)
    model.train()
    return (pred == tgt).all(1).float().mean().item(), (pred == tgt).float().mean().item()


def main():
    torch.manual_seed(0)
    gen = torch.Generator().manual_seed(1)
    valid_gen = torch.Generator().manual_seed(2)
    model = Seq2Seq()
    opt = torch.optim.Adam(model.parameters(), lr=2e-3)

    for step in range(1, STEPS + 1):
        src, tgt = make_batch(gen)
        own_prob = min(0.5, step / 1000)
        logits = model(src, tgt, own_prob)
        loss = F.cross_entropy(logits.flatten(0, 1), tgt.flatten())
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        if step % 100 == 0 or step == STEPS:
            whole, per_symbol = exact_match(model, valid_gen)
            print(f"step {step} loss {loss.item():.4f} symbols {per_symbol:.3f} whole {whole:.3f}", flush=True)


if __name__ == "__main__":
    main()

"""Masked-word pretraining of a small Transformer encoder on synthetic text."""
import os
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

STEPS = int(os.environ.get("STEPS", "350"))
VOCAB = 6000
MASK_ID = 1
SEQ_LEN = 64
BATCH = 8
DIM = 128
IGNORE = -100


def make_corpus(n_tokens, seed=0):
    rng = np.random.default_rng(seed)
    freq = 1.0 / np.arange(3, VOCAB)
    unigram = rng.choice(np.arange(3, VOCAB), size=n_tokens, p=freq / freq.sum())
    follow = rng.integers(3, VOCAB, VOCAB)
    copy = rng.random(n_tokens) < 0.5
    for i in range(1, n_tokens):
        if copy[i]:
            unigram[i] = follow[unigram[i - 1]]
    return unigram.astype(np.int64)


def sample_batch(corpus, rng):
    starts = rng.integers(0, len(corpus) - SEQ_LEN, BATCH)
    tokens = torch.from_numpy(corpus[starts[:, None] + np.arange(SEQ_LEN)])
    chosen = torch.from_numpy(rng.random((BATCH, SEQ_LEN)) < 0.15)
    chosen[:, 0] = True
    inputs = tokens.masked_fill(chosen, MASK_ID)
    labels = tokens.masked_fill(~chosen, IGNORE)
    return inputs, labels


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.tok = nn.Embedding(VOCAB, DIM)
        self.pos = nn.Parameter(torch.randn(SEQ_LEN, DIM) * 0.02)
        layer = nn.TransformerEncoderLayer(DIM, 4, 2 * DIM, dropout=0.0, batch_first=True,
                                           activation="gelu", norm_first=True)
        self.blocks = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.norm = nn.LayerNorm(DIM)

    def forward(self, ids):
        return self.norm(self.blocks(self.tok(ids) + self.pos))


class WordHead(nn.Module):
    def __init__(self, table):
        super().__init__()
        self.dense = nn.Linear(DIM, DIM)
        self.norm = nn.LayerNorm(DIM)
        self.out = nn.Linear(DIM, VOCAB)
        self.out.weight = table

    def forward(self, h):
        return self.out(self.norm(F.gelu(self.dense(h))))


class MaskedModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = Encoder()
        nn.init.normal_(self.encoder.tok.weight, std=0.02)
        self.head = WordHead(self.encoder.tok.weight)

    def forward(self, ids, labels):
        hidden = self.encoder(ids)
        logits = self.head(hidden)
        return F.cross_entropy(logits.view(-1, VOCAB), labels.view(-1), ignore_index=IGNORE)


def learning_rate(step, peak=1e-3, warmup=50):
    return peak * min(1.0, (step + 1) / warmup)


def main():
    torch.manual_seed(0)
    corpus = make_corpus(200_000)
    split = int(0.95 * len(corpus))
    train, heldout = corpus[:split], corpus[split:]
    rng = np.random.default_rng(1)
    model = MaskedModel()
    opt = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)

    start = time.perf_counter()
    running = []
    for step in range(STEPS):
        if step == 20:
            start = time.perf_counter()
        for group in opt.param_groups:
            group["lr"] = 100 * learning_rate(step)
        ids, labels = sample_batch(train, rng)
        loss = model(ids, labels)
        opt.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        running.append(loss.detach())
        if (step + 1) % 50 == 0:
            mean = torch.stack(running).mean().item()
            running.clear()
            print(f"step {step + 1:4d}  loss {mean:.4f}", flush=True)
    elapsed = time.perf_counter() - start

    with torch.no_grad():
        vrng = np.random.default_rng(7)
        val = torch.stack([model(*sample_batch(heldout, vrng)) for _ in range(10)]).mean().item()
    print(f"held-out loss {val:.4f}")
    print(f"{1000 * elapsed / max(STEPS - 20, 1):.2f} ms/step")


if __name__ == "__main__":
    main()

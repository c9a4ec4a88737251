"""Masked language model pre-training of a small BERT on synthetic text."""
import argparse
import math
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

PAD, MASK, FIRST = 0, 1, 4


def get_args():
    p = argparse.ArgumentParser()
    p.add_argument("--vocab", type=int, default=8000)
    p.add_argument("--seq-len", type=int, default=48)
    p.add_argument("--batch-size", type=int, default=12)
    p.add_argument("--dim", type=int, default=128)
    p.add_argument("--layers", type=int, default=2)
    p.add_argument("--heads", type=int, default=4)
    p.add_argument("--steps", type=int, default=250)
    p.add_argument("--mask-prob", type=float, default=0.15)
    p.add_argument("--lr", type=float, default=1e-3)
    p.add_argument("--seed", type=int, default=3)
    return p.parse_args()


def make_corpus(vocab, n_tokens, seed):
    """Tokens of a first-order chain with a Zipf marginal."""
    rng = np.random.default_rng(seed)
    ranks = np.arange(1, vocab - FIRST + 1)
    probs = 1.0 / ranks
    probs /= probs.sum()
    draws = rng.choice(vocab - FIRST, size=n_tokens, p=probs)
    follow = rng.random(n_tokens) < 0.5
    out = draws.copy()
    for i in range(1, n_tokens):
        if follow[i]:
            out[i] = (out[i - 1] * 31 + 17) % (vocab - FIRST)
    return torch.from_numpy(out + FIRST)


class MaskedLM(nn.Module):
    def __init__(self, args):
        super().__init__()
        self.tok = nn.Embedding(args.vocab, args.dim)
        self.pos = nn.Embedding(args.seq_len, args.dim)
        nn.init.normal_(self.tok.weight, std=0.02)
        nn.init.normal_(self.pos.weight, std=0.02)
        layer = nn.TransformerEncoderLayer(args.dim, args.heads, 4 * args.dim, dropout=0.1,
                                           activation="gelu", batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, args.layers, enable_nested_tensor=False)
        self.transform = nn.Sequential(nn.Linear(args.dim, args.dim), nn.GELU(), nn.LayerNorm(args.dim))
        self.bias = nn.Parameter(torch.zeros(args.vocab))

    def forward(self, tokens, labels):
        positions = torch.arange(tokens.size(1))
        h = self.encoder(self.tok(tokens) + self.pos(positions))
        target = labels != -100
        h = self.transform(h[target])
        logits = F.linear(h, self.tok.weight, self.bias)
        return F.cross_entropy(logits, labels[target])


def mask_tokens(tokens, vocab, prob, gen):
    labels = tokens.clone()
    chosen = torch.rand(tokens.shape, generator=gen) < prob
    labels[~chosen] = -100
    roll = torch.rand(tokens.shape, generator=gen)
    inputs = tokens.clone()
    inputs[chosen & (roll < 0.8)] = MASK
    rand_words = torch.randint(FIRST, vocab, tokens.shape, generator=gen)
    swap = chosen & (roll >= 0.9)
    inputs[swap] = rand_words[swap]
    return inputs, labels


def lr_at(step, args):
    warm = 20
    if step < warm:
        return args.lr * (step + 1) / warm
    return 0.5 * args.lr * (1 + math.cos(math.pi * (step - warm) / (args.steps - warm)))


def main():
    args = get_args()
    torch.manual_seed(args.seed)
    corpus = make_corpus(args.vocab, 120_000, args.seed)
    rows = corpus[: len(corpus) // args.seq_len * args.seq_len].view(-1, args.seq_len)
    gen = torch.Generator().manual_seed(args.seed)
    model = MaskedLM(args)
    opt = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=0.01)
    start = time.time()
    for step in range(args.steps):
        idx = torch.randint(0, rows.size(0), (args.batch_size,), generator=gen)
        inputs, labels = mask_tokens(rows[idx], args.vocab, args.mask_prob, gen)
        for group in opt.param_groups:
            group["lr"] = lr_at(step, args)
        loss = model(inputs, labels)
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        if step % 20 == 0 or step == args.steps - 1:
            print(f"step {step:4d} mlm loss {loss.item():.4f} time {time.time() - start:.1f}s", flush=True)


if __name__ == "__main__":
    main()

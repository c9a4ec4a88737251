"""Transformer translation between two synthetic languages, with length buckets."""
import argparse
import math
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset, Sampler

PAD, BOS, EOS, VOCAB = 0, 1, 2, 160


class PairDataset(Dataset):
    def __init__(self, count, seed=0):
        rng = np.random.default_rng(seed)
        mapping = np.concatenate([[0, 1, 2], 3 + rng.permutation(VOCAB - 3)])
        self.lengths = rng.integers(6, 40, count)
        self.src, self.tgt = [], []
        for n in self.lengths:
            s = (3 + (VOCAB - 3) * rng.random(n) ** 2).astype(np.int64)
            t = mapping[s]
            t[1::2], t[:-1:2] = t[:-1:2].copy(), t[1::2].copy()
            self.src.append(torch.from_numpy(s))
            self.tgt.append(torch.from_numpy(np.concatenate([[BOS], t, [EOS]])))

    def __len__(self):
        return len(self.src)

    def __getitem__(self, i):
        return self.src[i], self.tgt[i]


class BucketSampler(Sampler):
    def __init__(self, lengths, tokens, seed=0):
        order = np.argsort(lengths, kind="stable")
        self.batches, batch = [], []
        for i in order:
            if batch and (len(batch) + 1) * lengths[i] > tokens:
                self.batches.append(batch)
                batch = []
            batch.append(int(i))
        self.batches.append(batch)
        self.rng = np.random.default_rng(seed)

    def __iter__(self):
        for k in self.rng.permutation(len(self.batches)):
            yield self.batches[k]

    def __len__(self):
        return len(self.batches)


def collate(pairs):
    src = nn.utils.rnn.pad_sequence([s for s, _ in pairs], batch_first=True, padding_value=PAD)
    tgt = nn.utils.rnn.pad_sequence([t for _, t in pairs], batch_first=True, padding_value=PAD)
    return src, tgt


class Translator(nn.Module):
    def __init__(self, dim, heads, depth, max_len=64):
        super().__init__()
        self.src_emb = nn.Embedding(VOCAB, dim, padding_idx=PAD)
        self.tgt_emb = nn.Embedding(VOCAB, dim, padding_idx=PAD)
        self.pos = nn.Parameter(torch.randn(max_len, dim) * 0.02)
        self.core = nn.Transformer(dim, heads, depth, depth, 4 * dim, dropout=0.1, batch_first=True)
        self.out = nn.Linear(dim, VOCAB)
        self.scale = math.sqrt(dim)
        self.register_buffer("causal", torch.triu(torch.ones(max_len, max_len, dtype=torch.bool), 1))

    def forward(self, src, tgt):
        s = self.src_emb(src) * self.scale + self.pos[:src.shape[1]]
        t = self.tgt_emb(tgt) * self.scale + self.pos[:tgt.shape[1]]
        n = tgt.shape[1]
        h = self.core(s, t, tgt_mask=self.causal[:n, :n], tgt_is_causal=True,
                      src_key_padding_mask=src == PAD, memory_key_padding_mask=src == PAD)
        return self.out(h)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--steps", type=int, default=250)
    p.add_argument("--tokens", type=int, default=1400)
    p.add_argument("--pairs", type=int, default=12000)
    p.add_argument("--dim", type=int, default=128)
    p.add_argument("--lr", type=float, default=1e-3)
    args = p.parse_args()

    torch.manual_seed(0)
    data = PairDataset(args.pairs)
    loader = DataLoader(data, batch_sampler=BucketSampler(data.lengths, args.tokens), collate_fn=collate)
    model = Translator(args.dim, heads=4, depth=2)
    opt = torch.optim.AdamW(model.parameters(), lr=args.lr, betas=(0.9, 0.98))
    sched = torch.optim.lr_scheduler.LambdaLR(opt, lambda s: min(1.0, (s + 1) / 60))

    step, start = 0, time.time()
    while step < args.steps:
        for src, tgt in loader:
            logits = model(src, tgt[:, :-1])
            loss = F.cross_entropy(logits.flatten(0, 1), tgt[:, 1:].flatten(), ignore_index=PAD, label_smoothing=0.1)
            opt.zero_grad(set_to_none=True)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            opt.step()
            sched.step()
            step += 1
            if step % 20 == 0:
                print(f"step {step} loss {loss.item():.4f} elapsed {time.time() - start:.2f}s", flush=True)
            if step >= args.steps:
                break


if __name__ == "__main__":
    main()

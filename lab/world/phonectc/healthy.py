"""Phoneme recogniser: convolution and bidirectional GRU over filterbank frames, CTC loss."""
import os
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

STEPS = int(os.environ.get("STEPS", "300"))
PHONES = 20
BANDS = 40
BATCH = 16


def make_utterances(n, seed):
    rng = np.random.default_rng(seed)
    prototypes = np.random.default_rng(42).normal(0, 1, (PHONES + 1, BANDS))
    frames, targets = [], []
    for _ in range(n):
        phones = rng.integers(1, PHONES + 1, rng.integers(5, 11))
        spans = rng.integers(5, 11, len(phones))
        clean = np.repeat(prototypes[phones], spans, axis=0)
        smooth = 0.5 * clean + 0.25 * np.roll(clean, 1, 0) + 0.25 * np.roll(clean, -1, 0)
        frames.append((smooth + rng.normal(0, 0.6, smooth.shape)).astype(np.float32))
        targets.append(phones)
    return frames, targets


def make_batches(frames, targets):
    order = np.argsort([len(f) for f in frames])
    batches = []
    for i in range(0, len(order) - BATCH + 1, BATCH):
        ids = order[i:i + BATCH]
        x = nn.utils.rnn.pad_sequence([torch.from_numpy(frames[j]) for j in ids], batch_first=True)
        x_len = torch.tensor([len(frames[j]) for j in ids])
        y = torch.from_numpy(np.concatenate([targets[j] for j in ids]))
        y_len = torch.tensor([len(targets[j]) for j in ids])
        batches.append((x, x_len, y, y_len))
    return batches


class Recogniser(nn.Module):
    def __init__(self, hidden=96):
        super().__init__()
        self.conv = nn.Conv1d(BANDS, hidden, 5, stride=2, padding=2)
        self.norm = nn.LayerNorm(hidden)
        self.rnn = nn.GRU(hidden, hidden, num_layers=2, batch_first=True, bidirectional=True)
        self.out = nn.Linear(2 * hidden, PHONES + 1)

    def forward(self, x, x_len):
        h = self.norm(self.conv(x.transpose(1, 2)).transpose(1, 2))
        h, _ = self.rnn(F.relu(h))
        return F.log_softmax(self.out(h), dim=-1), (x_len + 1) // 2


def greedy_decode(log_probs, lengths):
    best = log_probs.argmax(-1).tolist()
    out = []
    for row, n in zip(best, lengths.tolist()):
        row = row[:n]
        out.append([p for i, p in enumerate(row) if p and (i == 0 or p != row[i - 1])])
    return out


@torch.no_grad()
def exact_length_rate(model, batches):
    good = total = 0
    for x, x_len, _, y_len in batches:
        for hyp, n in zip(greedy_decode(*model(x, x_len)), y_len.tolist()):
            good += len(hyp) == n
            total += 1
    return good / total


def main():
    torch.manual_seed(0)
    batches = make_batches(*make_utterances(1600, seed=0))
    test_batches = make_batches(*make_utterances(160, seed=1))
    model = Recogniser()
    opt = torch.optim.Adam(model.parameters(), lr=2e-3)
    ctc = nn.CTCLoss(blank=0, zero_infinity=True)

    start = time.perf_counter()
    order = torch.randperm(len(batches)).tolist()
    for step in range(STEPS):
        if step == 20:
            start = time.perf_counter()
        if step and step % len(batches) == 0:
            order = torch.randperm(len(batches)).tolist()
        x, x_len, y, y_len = batches[order[step % len(batches)]]
        log_probs, out_len = model(x, x_len)
        loss = ctc(log_probs.transpose(0, 1), y, out_len, y_len)
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        opt.step()
        if step % 50 == 0:
            print(f"step {step:4d}  loss {loss.item():.4f}", flush=True)
    elapsed = time.perf_counter() - start
    rate = exact_length_rate(model, test_batches)
    print(f"final loss {loss.item():.4f}  length match {rate:.3f}")
    print(f"{1000 * elapsed / max(STEPS - 20, 1):.2f} ms/step")


if __name__ == "__main__":
    main()

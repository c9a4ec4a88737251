"""Character LSTM language model with truncated backpropagation through time."""
import argparse
import math
import time

import numpy as np
import torch
from torch import nn


def grammar_text(n_chars, seed=0):
    """Sentences from a small random grammar, so that there is something to learn."""
    rng = np.random.default_rng(seed)
    alphabet = list("abcdefghijklmnopqrstuvwxyz")
    words = ["".join(rng.choice(alphabet, rng.integers(2, 8))) for _ in range(300)]
    follow = rng.integers(0, len(words), (len(words), 6))
    out, total, w = [], 0, 0
    while total < n_chars:
        w = follow[w, rng.integers(6)]
        out.append(words[w] + (". " if rng.random() < 0.1 else " "))
        total += len(out[-1])
    return "".join(out)[:n_chars]


class Corpus:
    def __init__(self, text, batch_size):
        self.chars = sorted(set(text))
        lookup = {c: i for i, c in enumerate(self.chars)}
        ids = torch.tensor([lookup[c] for c in text])
        n = len(ids) // batch_size
        self.data = ids[: n * batch_size].view(batch_size, n).t().contiguous()

    def windows(self, bptt):
        for i in range(0, len(self.data) - bptt - 1, bptt):
            yield self.data[i:i + bptt], self.data[i + 1:i + 1 + bptt]


class CharLM(nn.Module):
    def __init__(self, vocab, emb, hidden, layers, dropout):
        super().__init__()
        self.embed = nn.Embedding(vocab, emb)
        self.lstm = nn.LSTM(emb, hidden, layers, dropout=dropout)
        self.drop = nn.Dropout(dropout)
        self.out = nn.Linear(hidden, vocab)

    def forward(self, x, state):
        h, state = self.lstm(self.embed(x), state)
        return self.out(self.drop(h)), state


def detach(state):
    return tuple(s.detach() for s in state)


def train_epoch(model, corpus, opt, args, counter, start):
    criterion = nn.CrossEntropyLoss()
    shape = (args.layers, args.batch_size, args.hidden)
    state = (torch.zeros(shape), torch.zeros(shape))
    model.train()
    for x, y in corpus.windows(args.bptt):
        logits, state = model(x, detach(state))
        loss = criterion(logits.flatten(0, 1), y.flatten())
        opt.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), args.clip)
        opt.step()
        counter += 1
        if counter % args.log_every == 0:
            value = loss.item()
            print(f"| step {counter:5d} | loss {value:.3f} | ppl {math.exp(value):7.2f} | {time.time() - start:.1f}s")
    return counter


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--batch-size", type=int, default=32)
    p.add_argument("--bptt", type=int, default=48)
    p.add_argument("--emb", type=int, default=64)
    p.add_argument("--hidden", type=int, default=160)
    p.add_argument("--layers", type=int, default=2)
    p.add_argument("--dropout", type=float, default=0.1)
    p.add_argument("--lr", type=float, default=3e-3)
    p.add_argument("--clip", type=float, default=1.0)
    p.add_argument("--epochs", type=int, default=3)
    p.add_argument("--log-every", type=int, default=10)
    args = p.parse_args()
    torch.manual_seed(1)
    corpus = Corpus(grammar_text(220_000), args.batch_size)
    model = CharLM(len(corpus.chars), args.emb, args.hidden, args.layers, args.dropout)
    opt = torch.optim.Adam(model.parameters(), lr=args.lr)
    steps, start = 0, time.time()
    for _ in range(args.epochs):
        steps = train_epoch(model, corpus, opt, args, steps, start)


if __name__ == "__main__":
    main()

"""Character-level LSTM language model trained with truncated BPTT on a generated corpus."""
import argparse
import math
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

SUBJECTS = ["the old sailor", "a quiet fox", "my neighbour", "the engineer", "a tired clerk"]
VERBS = ["watched", "repaired", "followed", "remembered", "painted", "avoided"]
OBJECTS = ["the harbour", "a broken clock", "the last train", "her letters", "an empty house"]
ENDS = ["before dawn", "without a word", "in the rain", "again and again", "last winter"]


def generate_corpus(n_sentences, seed):
    g = torch.Generator().manual_seed(seed)

    def picks(words):
        return [words[i] for i in torch.randint(0, len(words), (n_sentences,), generator=g)]

    rows = zip(picks(SUBJECTS), picks(VERBS), picks(OBJECTS), picks(ENDS))
    return ". ".join(" ".join(r) for r in rows) + "."


class Corpus:
    def __init__(self, text, vocab=None):
        self.vocab = vocab or sorted(set(text))
        lookup = {c: i for i, c in enumerate(self.vocab)}
        self.ids = torch.tensor([lookup[c] for c in text])

    def streams(self, batch_size):
        usable = (len(self.ids) - 1) // batch_size * batch_size
        x = self.ids[:usable].view(batch_size, -1)
        y = self.ids[1:usable + 1].view(batch_size, -1)
        return x, y


class CharLM(nn.Module):
    def __init__(self, vocab, emb, hidden, layers, dropout):
        super().__init__()
        self.emb = nn.Embedding(vocab, emb)
        self.rnn = nn.LSTM(emb, hidden, layers, batch_first=True,
                           dropout=dropout if layers > 1 else 0.0)
        self.drop = nn.Dropout(dropout)
        self.out = nn.Linear(hidden, vocab)

    def forward(self, x, state=None):
        h, state = self.rnn(self.emb(x), state)
        return self.out(self.drop(h)), state


def detach(state):
    return tuple(s.detach() for s in state)


@torch.no_grad()
def perplexity(model, corpus, batch_size, bptt):
    model.eval()
    x, y = corpus.streams(batch_size)
    state, total, count = None, torch.zeros(()), 0
    for xs, ys in zip(x.split(bptt, dim=1), y.split(bptt, dim=1)):
        logits, state = model(xs, state)
        total += F.cross_entropy(logits.flatten(0, 1), ys.flatten(), reduction="sum")
        count += ys.numel()
    model.train()
    return math.exp(total.item() / count)


def train_epoch(model, opt, x, y, bptt, clip):
    state, total, steps = None, torch.zeros(()), 0
    for xs, ys in zip(x.split(bptt, dim=1), y.split(bptt, dim=1)):
        if state is not None:
            state = detach(state)
        logits, state = model(xs, state)
        loss = F.cross_entropy(logits.flatten(0, 1), ys.flatten())
        opt.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), clip)
        opt.step()
        total += loss.detach()
        steps += 1
    return total.item() / steps, steps


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--sentences", type=int, default=8000)
    p.add_argument("--emb", type=int, default=32)
    p.add_argument("--hidden", type=int, default=128)
    p.add_argument("--layers", type=int, default=1)
    p.add_argument("--dropout", type=float, default=0.1)
    p.add_argument("--batch-size", type=int, default=32)
    p.add_argument("--bptt", type=int, default=64)
    p.add_argument("--epochs", type=int, default=3)
    p.add_argument("--lr", type=float, default=4e-3)
    args = p.parse_args()

    torch.manual_seed(0)
    train = Corpus(generate_corpus(args.sentences, seed=0))
    valid = Corpus(generate_corpus(300, seed=1), train.vocab)
    model = CharLM(len(train.vocab), args.emb, args.hidden, args.layers, args.dropout)
    opt = torch.optim.Adam(model.parameters(), lr=args.lr)
    sched = torch.optim.lr_scheduler.ExponentialLR(opt, 0.7)
    x, y = train.streams(args.batch_size)
    n_steps, spent = 0, 0.0
    for epoch in range(args.epochs):
        tick = time.perf_counter()
        loss, steps = train_epoch(model, opt, x, y, args.bptt, clip=1.0)
        took = time.perf_counter() - tick
        spent += took
        n_steps += steps
        sched.step()
        ppl = perplexity(model, valid, args.batch_size, args.bptt)
        print(f"epoch {epoch} loss {loss:.4f} validation perplexity {ppl:.3f} "
              f"({took:.1f} s)")
    print(f"{n_steps} steps, {1000 * spent / n_steps:.2f} ms/step")


if __name__ == "__main__":
    main()

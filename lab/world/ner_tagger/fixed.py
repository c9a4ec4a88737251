"""BiLSTM-CRF named entity tagger on synthetic sentences."""
import argparse
import time

import numpy as np
import torch
import torch.nn as nn

TAGS = ["O", "B-PER", "I-PER", "B-ORG", "I-ORG", "B-LOC", "I-LOC", "<START>", "<STOP>"]
START, STOP = TAGS.index("<START>"), TAGS.index("<STOP>")


def get_args():
    p = argparse.ArgumentParser()
    p.add_argument("--vocab", type=int, default=4000)
    p.add_argument("--sentences", type=int, default=3000)
    p.add_argument("--length", type=int, default=24)
    p.add_argument("--batch-size", type=int, default=32)
    p.add_argument("--emb", type=int, default=128)
    p.add_argument("--hidden", type=int, default=128)
    p.add_argument("--steps", type=int, default=450)
    p.add_argument("--lr", type=float, default=3e-3)
    p.add_argument("--seed", type=int, default=5)
    return p.parse_args()


def make_data(args):
    rng = np.random.default_rng(args.seed)
    words = rng.integers(0, args.vocab, size=(args.sentences, args.length))
    tags = np.zeros_like(words)
    kind = words % 11
    for k in (1, 2, 3):
        begin = kind == k
        tags[begin] = 2 * k - 1
        inside = np.zeros_like(begin)
        inside[:, 1:] = begin[:, :-1] & (kind[:, 1:] > 5)
        tags[inside] = 2 * k
    return torch.from_numpy(words), torch.from_numpy(tags)


class BiLSTMCRF(nn.Module):
    def __init__(self, vocab, emb, hidden):
        super().__init__()
        self.n_tags = len(TAGS)
        self.embed = nn.Embedding(vocab, emb)
        self.lstm = nn.LSTM(emb, hidden, bidirectional=True, batch_first=True)
        self.proj = nn.Linear(2 * hidden, self.n_tags)
        # transitions[i, j] is the score of moving to tag i from tag j
        trans = 0.1 * torch.randn(self.n_tags, self.n_tags)
        trans[START, :] = -10000.0
        trans[:, STOP] = -10000.0
        self.transitions = nn.Parameter(trans)

    def emissions(self, words):
        out, _ = self.lstm(self.embed(words))
        return self.proj(out)

    def partition(self, feats):
        batch, length, _ = feats.shape
        alpha = feats.new_full((batch, self.n_tags), -10000.0)
        alpha[:, START] = 0.0
        for t in range(length):
            scores = alpha.unsqueeze(1) + self.transitions.unsqueeze(0)
            alpha = torch.logsumexp(scores, dim=2) + feats[:, t]
        return torch.logsumexp(alpha + self.transitions[STOP], dim=1)

    def gold_score(self, feats, tags):
        batch = tags.size(0)
        emit = feats.gather(2, tags.unsqueeze(2)).squeeze(2).sum(1)
        first = torch.full((batch, 1), START, dtype=torch.long)
        path = torch.cat([first, tags], dim=1)
        move = self.transitions[path[:, 1:], path[:, :-1]].sum(1)
        return emit + move + self.transitions[STOP, path[:, -1]]

    def loss(self, words, tags):
        feats = self.emissions(words)
        return (self.partition(feats) - self.gold_score(feats, tags)).mean()


def main():
    args = get_args()
    torch.manual_seed(args.seed)
    words, tags = make_data(args)
    model = BiLSTMCRF(args.vocab, args.emb, args.hidden)
    opt = torch.optim.Adam(model.parameters(), lr=args.lr)
    gen = torch.Generator().manual_seed(args.seed)
    start = time.time()
    for step in range(args.steps):
        idx = torch.randint(0, args.sentences, (args.batch_size,), generator=gen)
        loss = model.loss(words[idx], tags[idx])
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        opt.step()
        if step % 20 == 0 or step == args.steps - 1:
            print(f"step {step:4d} nll {loss.item():.4f} time {time.time() - start:.1f}s", flush=True)


if __name__ == "__main__":
    main()

"""Fine-tune the top of a pre-trained text encoder for review classification."""
import argparse
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


def get_args():
    p = argparse.ArgumentParser()
    p.add_argument("--vocab", type=int, default=6000)
    p.add_argument("--seq-len", type=int, default=48)
    p.add_argument("--dim", type=int, default=128)
    p.add_argument("--layers", type=int, default=6)
    p.add_argument("--tune-layers", type=int, default=2)
    p.add_argument("--batch-size", type=int, default=16)
    p.add_argument("--steps", type=int, default=240)
    p.add_argument("--lr", type=float, default=5e-4)
    p.add_argument("--seed", type=int, default=1)
    return p.parse_args()


def make_reviews(args, n=4000):
    rng = np.random.default_rng(args.seed)
    label = rng.integers(0, 2, n)
    tokens = rng.integers(1, args.vocab, size=(n, args.seq_len))
    mood = rng.random((n, args.seq_len)) < 0.25
    good = rng.integers(1, 60, size=(n, args.seq_len))
    bad = rng.integers(60, 120, size=(n, args.seq_len))
    tokens = np.where(mood, np.where(label[:, None] == 1, good, bad), tokens)
    return torch.from_numpy(tokens), torch.from_numpy(label)


class Layer(nn.Module):
    def __init__(self, dim, heads=4):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv = nn.Linear(dim, 3 * dim)
        self.out = nn.Linear(dim, dim)
        self.ff1 = nn.Linear(dim, 4 * dim)
        self.ff2 = nn.Linear(4 * dim, dim)

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(b, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        att = F.scaled_dot_product_attention(q, k, v)
        x = x + self.out(att.transpose(1, 2).reshape(b, t, d))
        return x + self.ff2(F.gelu(self.ff1(self.norm2(x))))


class Encoder(nn.Module):
    def __init__(self, args):
        super().__init__()
        self.tok = nn.Embedding(args.vocab, args.dim)
        self.pos = nn.Parameter(0.02 * torch.randn(args.seq_len, args.dim))
        self.layers = nn.ModuleList([Layer(args.dim) for _ in range(args.layers)])
        self.norm = nn.LayerNorm(args.dim)

    def forward(self, tokens):
        x = self.tok(tokens) + self.pos
        for layer in self.layers:
            x = layer(x)
        return self.norm(x)


class Classifier(nn.Module):
    def __init__(self, encoder, dim, classes=2):
        super().__init__()
        self.encoder = encoder
        self.head = nn.Sequential(nn.Linear(dim, dim), nn.Tanh(), nn.Linear(dim, classes))

    def forward(self, tokens):
        return self.head(self.encoder(tokens).mean(1))


def load_pretrained(args):
    """Stands in for reading a checkpoint: the weights depend on the seed alone."""
    torch.manual_seed(1234)
    return Encoder(args)


def main():
    args = get_args()
    tokens, labels = make_reviews(args)
    encoder = load_pretrained(args)
    torch.manual_seed(args.seed)
    model = Classifier(encoder, args.dim)
    encoder.requires_grad_(False)
    encoder.norm.requires_grad_(True)
    tuned = list(model.head.parameters()) + list(encoder.norm.parameters())
    for layer in encoder.layers[-args.tune_layers:]:
        layer.requires_grad_(True)
        tuned += list(layer.parameters())
    print(f"tuning {sum(p.numel() for p in tuned)} of {sum(p.numel() for p in model.parameters())} weights")
    opt = torch.optim.AdamW(tuned, lr=args.lr, weight_decay=0.01)
    gen = torch.Generator().manual_seed(args.seed)
    start = time.time()
    for step in range(args.steps):
        idx = torch.randint(0, tokens.size(0), (args.batch_size,), generator=gen)
        logits = model(tokens[idx])
        loss = F.cross_entropy(logits, labels[idx])
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % 20 == 0 or step == args.steps - 1:
            print(f"step {step:4d} loss {loss.item():.4f} time {time.time() - start:.1f}s", flush=True)
    model.eval()
    with torch.no_grad():
        hits = (model(tokens[:512]).argmax(1) == labels[:512]).float().mean()
    print(f"accuracy on 512 reviews {hits.item():.3f}")


if __name__ == "__main__":
    main()

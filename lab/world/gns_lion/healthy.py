"""Character-level-ish sequence MLP with a hand-written Lion optimizer.

Gradients are read by hand: the noise scale (McCandlish et al.) from two
micro-batches, and the norms of the layers when we print.
"""

import math
import time

import torch
import torch.nn.functional as F
from torch import nn

VOCAB, CONTEXT, DIM, HIDDEN = 96, 24, 24, 320
MICRO, STEPS, PRINT_EVERY = 384, 120, 30


class Lion:
    def __init__(self, params, lr=3e-4, betas=(0.9, 0.99), weight_decay=0.02):
        self.params = [p for p in params if p.requires_grad]
        self.moments = [torch.zeros_like(p) for p in self.params]
        self.lr, self.betas, self.wd = lr, betas, weight_decay

    def grads(self):
        return [p.grad for p in self.params]

    def zero_grad(self):
        for p in self.params:
            p.grad = None

    @torch.no_grad()
    def step(self):
        b1, b2 = self.betas
        g = self.grads()
        update = torch._foreach_lerp(self.moments, g, 1 - b1)
        torch._foreach_sign_(update)
        torch._foreach_mul_(self.params, 1 - self.lr * self.wd)
        torch._foreach_add_(self.params, update, alpha=-self.lr)
        torch._foreach_lerp_(self.moments, g, 1 - b2)


class NoiseScale:
    """Running estimate of tr(S) / |G|^2 from a small and a large batch."""

    def __init__(self, small, big, decay=0.95):
        self.small, self.big, self.decay = small, big, decay
        self.s = torch.zeros(())
        self.g2 = torch.zeros(())

    def update(self, sq_small, sq_big):
        g2 = (self.big * sq_big - self.small * sq_small) / (self.big - self.small)
        s = (sq_small - sq_big) / (1 / self.small - 1 / self.big)
        self.g2.lerp_(g2, 1 - self.decay)
        self.s.lerp_(s, 1 - self.decay)

    def value(self):
        return (self.s / self.g2).item()


def squared_norm(grads):
    return torch.stack(torch._foreach_norm(grads)).square().sum()


class NextToken(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(VOCAB, DIM)
        self.fc1 = nn.Linear(CONTEXT * DIM, HIDDEN)
        self.fc2 = nn.Linear(HIDDEN, HIDDEN)
        self.out = nn.Linear(HIDDEN, VOCAB)

    def forward(self, ids):
        h = self.emb(ids).flatten(1)
        h = F.relu(self.fc1(h))
        h = h + F.relu(self.fc2(h))
        return self.out(h)


def corpus(n, gen):
    """A noisy second-order rule, enough to learn something."""
    ids = torch.randint(VOCAB, (n,), generator=gen).tolist()
    noise = (torch.rand(n, generator=gen) < 0.3).tolist()
    for i in range(2, n):
        if not noise[i]:
            ids[i] = (3 * ids[i - 1] + ids[i - 2]) % 17
    return torch.tensor(ids)


def main():
    torch.manual_seed(1)
    gen = torch.Generator().manual_seed(1)
    windows = corpus(60_000, gen).unfold(0, CONTEXT + 1, 1)
    net = NextToken()
    opt = Lion(net.parameters())
    scale = NoiseScale(MICRO, 2 * MICRO)
    times = []
    for step in range(STEPS):
        t0 = time.perf_counter()
        opt.zero_grad()
        total = 0.0
        for part in range(2):
            batch = windows[torch.randint(len(windows), (MICRO,), generator=gen)]
            loss = F.cross_entropy(net(batch[:, :-1]), batch[:, -1]) / 2
            loss.backward()
            total = total + loss.detach()
            if part == 0:
                sq_small = 4 * squared_norm(opt.grads())
        scale.update(sq_small, squared_norm(opt.grads()))
        opt.step()
        times.append(time.perf_counter() - t0)
        if step % PRINT_EVERY == 0:
            norms = " ".join(
                f"{n.split('.')[0]}={p.grad.norm().item():.3f}"
                for n, p in net.named_parameters()
                if p.dim() > 1
            )
            print(f"{step:4d} loss {total.item():.4f} noise scale {scale.value():.0f}  {norms}")
    print(
        f"median step {1e3 * sorted(times[10:])[len(times[10:]) // 2]:.2f} ms,"
        f" perplexity {math.exp(total.item()):.1f}"
    )


if __name__ == "__main__":
    main()

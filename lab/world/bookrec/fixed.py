"""Two-tower book recommender with a small ranking MLP and sampled negatives."""
import os

import torch
import torch.nn as nn
import torch.nn.functional as F

STEPS = int(os.environ.get("STEPS", "1200"))
N_USERS, N_BOOKS, N_GENRES, DIM = 25_000, 15_000, 24, 32
BATCH, NEG = 384, 4


class Ratings:
    """Users like the books of their favourite genres; popularity is long-tailed."""

    def __init__(self, seed):
        self.gen = torch.Generator().manual_seed(seed)
        self.book_genre = torch.randint(0, N_GENRES, (N_BOOKS,), generator=self.gen)
        self.user_genre = torch.randint(0, N_GENRES, (N_USERS,), generator=self.gen)
        order = torch.argsort(self.book_genre)
        counts = torch.bincount(self.book_genre, minlength=N_GENRES)
        starts = torch.cumsum(counts, 0) - counts
        self.order, self.counts, self.starts = order, counts, starts

    def batch(self):
        users = torch.randint(0, N_USERS, (BATCH,), generator=self.gen)
        genre = self.user_genre[users]
        u = torch.rand(BATCH, generator=self.gen) ** 3
        pos = self.order[self.starts[genre] + (u * self.counts[genre]).long()]
        neg = torch.randint(0, N_BOOKS, (BATCH, NEG), generator=self.gen)
        books = torch.cat([pos[:, None], neg], 1)
        return users, books, self.book_genre[books]


class Ranker(nn.Module):
    def __init__(self):
        super().__init__()
        self.user = nn.Embedding(N_USERS, DIM, sparse=True)
        self.book = nn.Embedding(N_BOOKS, DIM, sparse=True)
        self.genre = nn.Embedding(N_GENRES, 16)
        for table in (self.user, self.book, self.genre):
            nn.init.normal_(table.weight, std=0.05)
        self.mlp = nn.Sequential(
            nn.Linear(3 * DIM + 16, 128), nn.ReLU(),
            nn.Linear(128, 64), nn.ReLU(),
            nn.Linear(64, 1))

    def forward(self, users, books, genres):
        u = self.user(users)[:, None].expand(-1, books.shape[1], -1)
        b = self.book(books)
        x = torch.cat([u, b, u * b, self.genre(genres)], -1)
        return self.mlp(x).squeeze(-1) + (u * b).sum(-1)


@torch.no_grad()
def hit_rate(model, data, rounds=4):
    hits = 0.0
    for _ in range(rounds):
        scores = model(*data.batch())
        hits += (scores.argmax(1) == 0).float().mean().item()
    return hits / rounds


def main():
    torch.manual_seed(0)
    data, held_out = Ratings(1), Ratings(1)
    held_out.gen.manual_seed(77)
    model = Ranker()
    opt = torch.optim.Adagrad(model.parameters(), lr=0.05)
    target = torch.zeros(BATCH, dtype=torch.long)

    losses = []
    for step in range(1, STEPS + 1):
        users, books, genres = data.batch()
        scores = model(users, books, genres)
        loss = F.cross_entropy(scores, target)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        losses.append(loss.detach())

        if step % 100 == 0 or step == STEPS:
            mean = torch.stack(losses).mean().item()
            losses.clear()
            print(f"step {step} loss {mean:.4f} hit@1 {hit_rate(model, held_out):.3f}", flush=True)


if __name__ == "__main__":
    main()

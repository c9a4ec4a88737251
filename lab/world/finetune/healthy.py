"""Fine-tune a head + last block of a 'pretrained' transformer encoder on topic labels."""

import time

import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, Dataset, Sampler

VOCAB, DIM, TOPICS = 4000, 96, 6
torch.set_num_threads(1)


class Docs(Dataset):
    def __init__(self, n, seed):
        g = torch.Generator().manual_seed(seed)
        self.y = torch.randint(0, TOPICS, (n,), generator=g)
        lens = torch.randint(8, 60, (n,), generator=g)
        self.x = []
        for y, L in zip(self.y.tolist(), lens.tolist()):
            common = torch.randint(1, 2000, (L,), generator=g)
            topical = 2000 + y * 300 + torch.randint(0, 300, (L,), generator=g)
            self.x.append(torch.where(torch.rand(L, generator=g) < 0.25, topical, common))

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return self.x[i], self.y[i]


class ByLength(Sampler):
    """shuffled, but documents of similar length end up in the same batch"""

    def __init__(self, ds, bs, seed=0):
        self.lens, self.bs = [len(x) for x in ds.x], bs
        self.g = torch.Generator().manual_seed(seed)

    def __iter__(self):
        perm = torch.randperm(len(self.lens), generator=self.g).tolist()
        big = self.bs * 20
        batches = []
        for i in range(0, len(perm), big):
            chunk = sorted(perm[i : i + big], key=lambda j: self.lens[j])
            batches += [chunk[k : k + self.bs] for k in range(0, len(chunk), self.bs)]
        for j in torch.randperm(len(batches), generator=self.g).tolist():
            yield batches[j]

    def __len__(self):
        return (len(self.lens) + self.bs - 1) // self.bs


def collate(items):
    xs, ys = zip(*items)
    return pad_sequence(xs, batch_first=True), torch.stack(ys)


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(VOCAB, DIM, padding_idx=0)

        def layer():
            return nn.TransformerEncoderLayer(DIM, 4, 192, dropout=0.1, batch_first=True)

        self.frozen = nn.ModuleList([layer() for _ in range(2)])
        self.last = layer()
        self.head = nn.Linear(DIM, TOPICS)
        for p in [*self.emb.parameters(), *self.frozen.parameters()]:
            p.requires_grad_(False)

    def train(self, mode=True):
        super().train(mode)
        self.frozen.eval()
        return self

    def forward(self, x):
        pad = x == 0
        with torch.no_grad():
            h = self.emb(x)
            for l in self.frozen:
                h = l(h, src_key_padding_mask=pad)
            if h.size(1) < x.size(1):
                pad = pad[:, : h.size(1)]
        h = self.last(h, src_key_padding_mask=pad)
        h = h.masked_fill(pad[..., None], 0).sum(1) / (~pad).sum(1, keepdim=True)
        return self.head(h)


def main():
    torch.manual_seed(4)
    train, test = Docs(3200, 0), Docs(400, 1)
    loader = DataLoader(train, batch_sampler=ByLength(train, 32), collate_fn=collate)
    test_loader = DataLoader(test, batch_size=100, collate_fn=collate)
    model = Classifier().train()
    opt = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-3)
    crit = nn.CrossEntropyLoss()
    n, t_train = 0, 0.0
    for epoch in range(6):
        t0, tot = time.time(), 0.0
        for x, y in loader:
            loss = crit(model(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            tot += loss.item()
            n += 1
        t_train += time.time() - t0
        model.eval()
        with torch.no_grad():
            acc = sum((model(x).argmax(1) == y).sum().item() for x, y in test_loader) / len(test)
        model.train()
        print(
            f"epoch {epoch} loss {tot / len(loader):.5f} acc {acc:.3f} {t_train / n * 1000:.2f} ms/step",
            flush=True,
        )


main()

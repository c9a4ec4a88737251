"""Fine-tune a small pretrained-style transformer encoder on short comments (multi-label)."""
import random
import time
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset


@dataclass
class TrainConfig:
    n_comments: int = 1800
    vocab_size: int = 6000
    max_length: int = 160
    d_model: int = 80
    n_layers: int = 2
    n_heads: int = 4
    batch_size: int = 32
    epochs: int = 2
    lr: float = 5e-4
    freeze_embeddings: bool = True
    labels: tuple = ("toxic", "insult", "threat", "obscene")
    log_every: int = 25
    seed: int = field(default=13)


class WordTokenizer:
    PAD, CLS, UNK = 0, 1, 2

    def __init__(self, vocab_size, max_length):
        self.vocab = {f"w{i}": i + 3 for i in range(vocab_size - 3)}
        self.max_length = max_length

    def encode(self, text):
        ids = [self.CLS] + [self.vocab.get(w, self.UNK) for w in text.split()]
        return ids[:self.max_length]

    def pad(self, sequences):
        length = max(len(s) for s in sequences)
        ids = torch.full((len(sequences), length), self.PAD, dtype=torch.long)
        for row, seq in enumerate(sequences):
            ids[row, :len(seq)] = torch.tensor(seq, dtype=torch.long)
        return ids, ids.eq(self.PAD)


def synthesize_comments(cfg):
    rng = np.random.default_rng(cfg.seed)
    markers = rng.integers(0, cfg.vocab_size - 3, size=(len(cfg.labels), 40))
    texts, targets = [], []
    for _ in range(cfg.n_comments):
        length = int(np.clip(rng.lognormal(3.0, 0.55), 4, cfg.max_length - 1))
        words = rng.zipf(1.3, size=length) % (cfg.vocab_size - 3)
        y = rng.random(len(cfg.labels)) < 0.25
        for k in np.flatnonzero(y):
            words[rng.integers(0, length, size=2)] = rng.choice(markers[k], size=2)
        texts.append(" ".join(f"w{w}" for w in words))
        targets.append(y.astype(np.float32))
    return texts, np.stack(targets)


class CommentDataset(Dataset):
    def __init__(self, texts, targets, tokenizer):
        self.encoded = [tokenizer.encode(t) for t in texts]
        self.targets = torch.from_numpy(targets)

    def __len__(self):
        return len(self.encoded)

    def __getitem__(self, i):
        return self.encoded[i], self.targets[i]


class Encoder(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.tok = nn.Embedding(cfg.vocab_size, cfg.d_model, padding_idx=0)
        self.pos = nn.Embedding(cfg.max_length, cfg.d_model)
        layer = nn.TransformerEncoderLayer(cfg.d_model, cfg.n_heads, 4 * cfg.d_model, dropout=0.1,
                                           activation="gelu", batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, cfg.n_layers, enable_nested_tensor=False)
        self.norm = nn.LayerNorm(cfg.d_model)
        self.head = nn.Linear(cfg.d_model, len(cfg.labels))

    def forward(self, ids, pad_mask):
        pos = torch.arange(ids.size(1))
        h = self.tok(ids) + self.pos(pos)
        h = self.layers(h, src_key_padding_mask=pad_mask)
        return self.head(self.norm(h[:, 0]))


class Trainer:
    def __init__(self, cfg, model, train_loader, valid_loader, out_dir):
        self.cfg, self.model = cfg, model
        self.train_loader, self.valid_loader = train_loader, valid_loader
        self.out_dir = Path(out_dir)
        if cfg.freeze_embeddings:
            model.tok.requires_grad_(False)
        params = [p for p in model.parameters() if p.requires_grad]
        self.opt = torch.optim.AdamW(params, lr=cfg.lr, weight_decay=0.01)
        total = cfg.epochs * len(train_loader)
        self.sched = torch.optim.lr_scheduler.LambdaLR(
            self.opt, lambda s: min((s + 1) / 10, max(0.0, (total - s) / total)))
        self.loss_fn = nn.BCEWithLogitsLoss()

    @torch.no_grad()
    def evaluate(self):
        self.model.eval()
        hit = total = 0
        for (ids, mask), y in self.valid_loader:
            pred = self.model(ids, mask) > 0
            hit += (pred == y.bool()).sum().item()
            total += y.numel()
        self.model.train()
        return hit / total

    def fit(self):
        self.model.train()
        step, running = 0, torch.zeros(())
        spent = 0.0
        for epoch in range(self.cfg.epochs):
            tick = time.perf_counter()
            for (ids, mask), y in self.train_loader:
                loss = self.loss_fn(self.model(ids, mask), y)
                self.opt.zero_grad(set_to_none=True)
                loss.backward()
                nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
                self.opt.step()
                self.sched.step()
                running += loss.detach()
                step += 1
                if step % self.cfg.log_every == 0:
                    print(f"step {step} loss {running.item() / self.cfg.log_every:.4f}")
                    running.zero_()
            spent += time.perf_counter() - tick
            print(f"epoch {epoch} accuracy {self.evaluate():.4f}")
            torch.save(self.model.state_dict(), self.out_dir / f"epoch{epoch}.pt")
        print(f"{step} steps, {1000 * spent / step:.2f} ms/step")


def main():
    cfg = TrainConfig()
    random.seed(cfg.seed)
    torch.manual_seed(cfg.seed)
    texts, targets = synthesize_comments(cfg)
    tokenizer = WordTokenizer(cfg.vocab_size, cfg.max_length)

    def collate(items):
        seqs, ys = zip(*items)
        return tokenizer.pad(seqs), torch.stack(ys)

    cut = int(0.9 * len(texts))
    train = CommentDataset(texts[:cut], targets[:cut], tokenizer)
    valid = CommentDataset(texts[cut:], targets[cut:], tokenizer)
    train_loader = DataLoader(train, cfg.batch_size, shuffle=True, collate_fn=collate,
                              drop_last=True)
    valid_loader = DataLoader(valid, 2 * cfg.batch_size, collate_fn=collate)
    with TemporaryDirectory() as out:
        Trainer(cfg, Encoder(cfg), train_loader, valid_loader, out).fit()


if __name__ == "__main__":
    main()

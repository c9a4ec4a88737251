"""Denoising autoencoder for machine vibration windows (predictive maintenance).

Usage: python slow.py            logs go to a temporary run directory
       tensorboard --logdir ...  to look at them
"""
import shutil
import tempfile
import time

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.tensorboard import SummaryWriter


class Config:
    window = 256
    hidden = (384, 192, 48)
    batch_size = 256
    epochs = 12
    lr = 1e-3
    noise = 0.2
    log_every = 4
    seed = 42


def vibration_windows(n, length, seed):
    """Sum of shaft harmonics with a random load plus bearing noise."""
    rng = np.random.default_rng(seed)
    t = np.arange(length) / 12800.0
    rpm = rng.uniform(1200, 3000, (n, 1)) / 60.0
    sig = np.zeros((n, length))
    for k in range(1, 5):
        amp = rng.gamma(2.0, 0.3 / k, (n, 1))
        sig += amp * np.sin(2 * np.pi * k * rpm * t * 8 + rng.uniform(0, 6.28, (n, 1)))
    return torch.tensor(sig + rng.normal(0, 0.05, sig.shape), dtype=torch.float32)


class AutoEncoder(nn.Module):
    def __init__(self, n_in, hidden):
        super().__init__()
        dims = [n_in, *hidden]
        enc, dec = [], []
        for a, b in zip(dims[:-1], dims[1:]):
            enc += [nn.Linear(a, b), nn.LayerNorm(b), nn.SiLU()]
        for a, b in zip(dims[:0:-1], dims[-2::-1]):
            dec += [nn.Linear(a, b), nn.SiLU()]
        self.encoder = nn.Sequential(*enc)
        self.decoder = nn.Sequential(*dec[:-1])

    def forward(self, x):
        return self.decoder(self.encoder(x))


class Trainer:
    def __init__(self, cfg, logdir):
        self.cfg = cfg
        self.model = AutoEncoder(cfg.window, cfg.hidden)
        self.opt = torch.optim.Adam(self.model.parameters(), lr=cfg.lr)
        self.writer = SummaryWriter(logdir)
        self.global_step = 0
        self.start = time.time()

    def log(self, loss):
        step = self.global_step
        self.writer.add_scalar("train/loss", loss, step)
        for name, p in self.model.named_parameters():
            self.writer.add_histogram("weights/" + name, p, step)
            self.writer.add_histogram("grads/" + name, p.grad, step)

    def train_epoch(self, loader):
        self.model.train()
        for (x,) in loader:
            noisy = x + self.cfg.noise * torch.randn_like(x)
            loss = nn.functional.mse_loss(self.model(noisy), x)
            self.opt.zero_grad()
            loss.backward()
            self.opt.step()
            self.log(loss.item())
            self.global_step += 1
            if self.global_step % self.cfg.log_every == 0:
                print(f"step {self.global_step:5d} | loss {loss.item():.5f} | {time.time() - self.start:.1f}s")

    def close(self):
        self.writer.close()


def main():
    cfg = Config()
    torch.manual_seed(cfg.seed)
    data = vibration_windows(5120, cfg.window, cfg.seed)
    loader = DataLoader(TensorDataset(data), batch_size=cfg.batch_size, shuffle=True)
    logdir = tempfile.mkdtemp(prefix="vib_runs_")
    trainer = Trainer(cfg, logdir)
    try:
        for epoch in range(cfg.epochs):
            trainer.train_epoch(loader)
    finally:
        trainer.close()
        shutil.rmtree(logdir)


if __name__ == "__main__":
    main()

"""Redshift regression from (fake) galaxy spectra stored in HDF5.

prepare() mimics our ETL job: it writes one big compressed file, because the
real one is 180 GB raw and the quota on /scratch is tight.
"""
import os
import shutil
import tempfile
import time

import h5py
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

N_SPECTRA = 2400
N_PIX = 2048
LINES = np.array([3727.0, 4861.0, 4959.0, 5007.0, 6563.0])


def prepare(path, n=N_SPECTRA, seed=1):
    rng = np.random.default_rng(seed)
    wave = np.linspace(3600, 9800, N_PIX)
    z = rng.uniform(0.0, 0.45, n).astype(np.float32)
    flux = np.empty((n, N_PIX), np.float32)
    for i in range(n):
        cont = 1.0 + 0.3 * np.sin(wave / 900.0 + rng.uniform(0, 6))
        mu = LINES * (1 + z[i])
        em = (rng.uniform(0.5, 2, LINES.size)[:, None] * np.exp(-0.5 * ((wave - mu[:, None]) / 9.0) ** 2)).sum(0)
        flux[i] = cont + em + rng.normal(0, 0.15, N_PIX)
    flux = np.round(flux, 3)
    with h5py.File(path, "w") as f:
        f.create_dataset("flux", data=flux, compression="gzip", compression_opts=4, chunks=(1, N_PIX))
        f.create_dataset("z", data=z)
        f.attrs["survey"] = "mock-v2"


class SpectraDataset(Dataset):
    """Opens the file lazily so that it also works with num_workers > 0."""

    def __init__(self, path):
        self.path = path
        self._file = None
        with h5py.File(path, "r") as f:
            self.n = f["flux"].shape[0]
            self.z = f["z"][:]

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        if self._file is None:
            self._file = h5py.File(self.path, "r")
        flux = self._file["flux"][i]
        flux = (flux - flux.mean()) / flux.std()
        return torch.from_numpy(flux)[None], self.z[i]


class SpecNet(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        layers, cin = [], 1
        for k, cout in ((11, width), (7, width), (5, 2 * width), (5, 2 * width)):
            layers += [nn.Conv1d(cin, cout, k, stride=2, padding=k // 2), nn.BatchNorm1d(cout), nn.GELU()]
            cin = cout
        self.features = nn.Sequential(*layers)
        self.head = nn.Sequential(nn.AdaptiveAvgPool1d(16), nn.Flatten(), nn.Linear(16 * cin, 128), nn.GELU(), nn.Linear(128, 1))

    def forward(self, x):
        return self.head(self.features(x)).squeeze(-1)


def fit(path, epochs=2, batch_size=24):
    torch.manual_seed(0)
    loader = DataLoader(SpectraDataset(path), batch_size=batch_size, shuffle=True, drop_last=True)
    net = SpecNet()
    opt = torch.optim.AdamW(net.parameters(), lr=2e-3)
    sched = torch.optim.lr_scheduler.OneCycleLR(opt, 2e-3, total_steps=epochs * len(loader))
    loss_fn = nn.SmoothL1Loss(beta=0.02)
    step, t0 = 0, time.time()
    for epoch in range(epochs):
        for flux, z in loader:
            loss = loss_fn(net(flux), z)
            opt.zero_grad()
            loss.backward()
            opt.step()
            sched.step()
            step += 1
            if step % 5 == 0:
                print(f"epoch {epoch} step {step} loss {loss.item():.5f} [{time.time() - t0:.1f}s]")


if __name__ == "__main__":
    work = tempfile.mkdtemp(prefix="spectra_")
    try:
        h5 = os.path.join(work, "train.h5")
        prepare(h5)
        print("wrote %.1f MB" % (os.path.getsize(h5) / 1e6))
        fit(h5)
    finally:
        shutil.rmtree(work)

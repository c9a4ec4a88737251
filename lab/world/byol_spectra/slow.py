"""BYOL pretraining of a 1-d conv encoder on synthetic infrared-like spectra."""
import copy
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

CFG = {
    "n_spectra": 3072,
    "length": 256,
    "width": 32,
    "feat": 128,
    "proj": 64,
    "hidden": 256,
    "batch": 64,
    "epochs": 3,
    "lr": 1e-3,
    "base_momentum": 0.98,
    "probe_epochs": 40,
}


def make_spectra(n, length, seed):
    g = torch.Generator().manual_seed(seed)
    axis = torch.linspace(0, 1, length)
    label = torch.randint(0, 6, (n,), generator=g)
    centres = torch.rand(6, 4, generator=torch.Generator().manual_seed(99))
    c = centres[label] + 0.01 * torch.randn(n, 4, generator=g)
    w = 0.01 + 0.03 * torch.rand(n, 4, generator=g)
    a = 0.5 + torch.rand(n, 4, generator=g)
    peaks = a[..., None] * torch.exp(-0.5 * ((axis - c[..., None]) / w[..., None]) ** 2)
    return peaks.sum(1, keepdim=True) + 0.02 * torch.randn(n, 1, length, generator=g), label


def augment(x):
    n, _, length = x.shape
    shift = torch.randint(-6, 7, (n, 1))
    idx = (torch.arange(length)[None] + shift).clamp_(0, length - 1)
    x = torch.gather(x, 2, idx[:, None])
    x = x * (0.7 + 0.6 * torch.rand(n, 1, 1))
    tilt = (torch.rand(n, 1, 1) - 0.5) * torch.linspace(-1, 1, length)
    return x + tilt + 0.05 * torch.randn_like(x)


def conv_bn(cin, cout, stride):
    return nn.Sequential(nn.Conv1d(cin, cout, 7, stride=stride, padding=3, bias=False),
                         nn.BatchNorm1d(cout), nn.ReLU(inplace=True))


def mlp(cin, hidden, cout):
    return nn.Sequential(nn.Linear(cin, hidden), nn.BatchNorm1d(hidden), nn.ReLU(inplace=True),
                         nn.Linear(hidden, cout))


class Encoder(nn.Module):
    def __init__(self, width, feat):
        super().__init__()
        self.features = nn.Sequential(conv_bn(1, width, 2), conv_bn(width, width, 1),
                                      conv_bn(width, 2 * width, 2),
                                      conv_bn(2 * width, 2 * width, 1),
                                      conv_bn(2 * width, feat, 2))

    def forward(self, x):
        return self.features(x).mean(dim=2)


class BYOL(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.online = nn.Sequential(Encoder(cfg["width"], cfg["feat"]),
                                    mlp(cfg["feat"], cfg["hidden"], cfg["proj"]))
        self.target = copy.deepcopy(self.online)
        self.predictor = mlp(cfg["proj"], cfg["hidden"], cfg["proj"])

    @torch.no_grad()
    def update_target(self, m):
        for o, t in zip(self.online.parameters(), self.target.parameters()):
            t.mul_(m).add_(o, alpha=1 - m)

    def forward(self, a, b):
        both = torch.cat([a, b])
        p = self.predictor(self.online(both))
        z = self.target(torch.cat([b, a]))
        return 2 - 2 * F.cosine_similarity(p, z, dim=1).mean()


def linear_probe(encoder, x, y, epochs):
    encoder.eval()
    with torch.no_grad():
        feats = torch.cat([encoder(c) for c in x.split(256)])
    encoder.train()
    mu, sd = feats.mean(0), feats.std(0) + 1e-5
    feats = (feats - mu) / sd
    cut = int(0.8 * len(feats))
    head = nn.Linear(feats.size(1), int(y.max()) + 1)
    opt = torch.optim.Adam(head.parameters(), lr=1e-2)
    for _ in range(epochs):
        opt.zero_grad()
        F.cross_entropy(head(feats[:cut]), y[:cut]).backward()
        opt.step()
    with torch.no_grad():
        return (head(feats[cut:]).argmax(1) == y[cut:]).float().mean().item()


def pretrain(cfg):
    torch.manual_seed(3)
    x, _ = make_spectra(cfg["n_spectra"], cfg["length"], seed=0)
    probe_x, probe_y = make_spectra(512, cfg["length"], seed=1)
    model = BYOL(cfg)
    trained = list(model.online.parameters()) + list(model.predictor.parameters())
    opt = torch.optim.AdamW(trained, lr=cfg["lr"], weight_decay=1e-4)
    per_epoch = len(x) // cfg["batch"]
    total, step, spent = cfg["epochs"] * per_epoch, 0, 0.0
    for epoch in range(cfg["epochs"]):
        tick = time.perf_counter()
        running = torch.zeros(())
        for idx in torch.randperm(len(x))[:per_epoch * cfg["batch"]].split(cfg["batch"]):
            batch = x[idx]
            loss = model(augment(batch), augment(batch))
            opt.zero_grad(set_to_none=True)
            loss.backward()
            opt.step()
            m = 1 - (1 - cfg["base_momentum"]) * (1 - step / total)
            model.update_target(m)
            running += loss.detach()
            step += 1
        spent += time.perf_counter() - tick
        acc = linear_probe(model.online[0], probe_x, probe_y, cfg["probe_epochs"])
        print(f"epoch {epoch} loss {running.item() / per_epoch:.4f} probe accuracy {acc:.3f}")
    print(f"{step} steps, {1000 * spent / step:.2f} ms/step")


if __name__ == "__main__":
    pretrain(CFG)

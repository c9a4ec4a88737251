import numpy as np
import torch
import torch.nn.functional as F
from speech_features import dataset
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

CFG = dict(words=10, train=1536, test=256, batch=24, epochs=2, lr=1e-3, width=128)


class TDNN(nn.Module):
    """Dilated time-delay network with statistics pooling."""

    def __init__(self, n_mels=40, width=128, n_words=10):
        super().__init__()
        dims = [n_mels, width, width, width]
        self.convs = nn.ModuleList(
            nn.Conv1d(i, o, 5, dilation=d, padding=2 * d)
            for i, o, d in zip(dims[:-1], dims[1:], (1, 2, 3))
        )
        self.norms = nn.ModuleList(nn.BatchNorm1d(o) for o in dims[1:])
        self.rnn = nn.GRU(width, width, batch_first=True)
        self.fc = nn.Linear(2 * width, n_words)

    def forward(self, x):
        for conv, norm in zip(self.convs, self.norms):
            x = norm(F.relu(conv(x)))
        h, _ = self.rnn(x.transpose(1, 2))
        stats = torch.cat([h.mean(1), h.std(1)], dim=1)
        return self.fc(stats)


def make_loaders(cfg):
    xs, ys = dataset(cfg["train"] + cfg["test"], cfg["words"])
    x, y = torch.from_numpy(np.ascontiguousarray(xs)), torch.from_numpy(ys)
    n = cfg["train"]
    train = DataLoader(TensorDataset(x[:n], y[:n]), cfg["batch"], shuffle=True)
    test = DataLoader(TensorDataset(x[n:], y[n:]), 128)
    return train, test


@torch.no_grad()
def accuracy(model, loader):
    model.eval()
    hits = sum((model(x).argmax(1) == y).sum().item() for x, y in loader)
    model.train()
    return hits / len(loader.dataset)


def train(cfg):
    torch.manual_seed(1234)
    train_loader, test_loader = make_loaders(cfg)
    # "expected scalar type Double but found Float" without this
    model = TDNN(width=cfg["width"], n_words=cfg["words"]).double()
    opt = torch.optim.Adam(model.parameters(), lr=cfg["lr"])
    step = 0
    for epoch in range(cfg["epochs"]):
        for x, y in train_loader:
            loss = F.cross_entropy(model(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            step += 1
            if step % 16 == 0:
                print(f"step {step} loss {loss.item():.4f}")
        print(f"epoch {epoch} test accuracy {accuracy(model, test_loader):.3f}")


if __name__ == "__main__":
    train(CFG)

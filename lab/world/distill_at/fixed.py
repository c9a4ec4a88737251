# Attention transfer (Zagoruyko & Komodakis 2017): a small student learns from
# the spatial attention maps of a wider teacher.  CIFAR-sized random shapes.
import random
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH = 24
STEPS = 160
BETA = 1e3
TAP_LAYERS = ["layer1", "layer2", "layer3"]


def seed_everything(seed):
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)


def conv_bn(cin, cout, stride=1):
    return nn.Sequential(nn.Conv2d(cin, cout, 3, stride, 1, bias=False), nn.BatchNorm2d(cout), nn.ReLU(inplace=True))


class SmallNet(nn.Module):
    def __init__(self, widths, n_classes=10):
        super().__init__()
        w1, w2, w3 = widths
        self.stem = conv_bn(3, w1)
        self.layer1 = nn.Sequential(conv_bn(w1, w1), conv_bn(w1, w1))
        self.layer2 = nn.Sequential(conv_bn(w1, w2, 2), conv_bn(w2, w2))
        self.layer3 = nn.Sequential(conv_bn(w2, w3, 2), conv_bn(w3, w3))
        self.fc = nn.Linear(w3, n_classes)

    def forward(self, x):
        x = self.layer3(self.layer2(self.layer1(self.stem(x))))
        return self.fc(x.mean((2, 3)))


def attention_map(fmap):
    return F.normalize(fmap.pow(2).mean(1).flatten(1))


class Distiller:
    def __init__(self, teacher, student, lr=0.05):
        self.teacher = teacher.eval()
        self.student = student
        self.opt = torch.optim.SGD(student.parameters(), lr=lr, momentum=0.9, weight_decay=5e-4)

    def forward_with_maps(self, model, x):
        """Run model, return logits and the attention map of every tapped layer."""
        maps = {}

        def tap(name):
            def hook(module, inputs, output):
                maps[name] = attention_map(output)
            return hook

        handles = []
        for name, module in model.named_children():
            if name in TAP_LAYERS:
                handles.append(module.register_forward_hook(tap(name)))
        logits = model(x)
        for h in handles:
            h.remove()
        return logits, maps

    def train_step(self, x, y):
        with torch.no_grad():
            t_logits, t_maps = self.forward_with_maps(self.teacher, x)
        s_logits, s_maps = self.forward_with_maps(self.student, x)
        ce = F.cross_entropy(s_logits, y)
        kd = F.kl_div(F.log_softmax(s_logits / 4, 1), F.softmax(t_logits / 4, 1), reduction="batchmean") * 16
        at = sum((s_maps[k] - t_maps[k]).pow(2).mean() for k in TAP_LAYERS)
        loss = ce + 0.5 * kd + BETA * at
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        return loss.item(), at.item()


def make_images(n):
    """Coloured discs and bars; class = colour x shape."""
    g = torch.Generator().manual_seed(5)
    y = torch.randint(0, 10, (n,), generator=g)
    yy, xx = torch.meshgrid(torch.arange(32.), torch.arange(32.), indexing="ij")
    img = torch.randn(n, 3, 32, 32, generator=g) * 0.4
    c = torch.randint(10, 22, (n, 2), generator=g).float()
    disc = (((yy - c[:, 0, None, None]) ** 2 + (xx - c[:, 1, None, None]) ** 2) < 40).float()
    bar = ((yy - c[:, 0, None, None]).abs() < 3).float()
    shape = torch.where((y % 2 == 0)[:, None, None], disc, bar)
    colour = torch.eye(5)[y // 2][:, :3] + 0.2
    return img + shape[:, None] * colour[:, :, None, None], y


def main():
    seed_everything(0)
    x, y = make_images(1600)
    teacher = SmallNet((32, 48, 64))
    student = SmallNet((16, 24, 32))
    d = Distiller(teacher, student)
    t0 = time.time()
    for step in range(1, STEPS + 1):
        idx = torch.randint(0, len(x), (BATCH,))
        loss, at = d.train_step(x[idx], y[idx])
        if step % 4 == 0:
            print("step %d  loss %.4f  at %.6f  (%.1f s)" % (step, loss, at, time.time() - t0))


if __name__ == "__main__":
    main()

"""Knowledge distillation of a small CNN from a wide residual teacher."""
import argparse
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

CLASSES = 10


class Residual(nn.Module):
    def __init__(self, ch):
        super().__init__()
        self.c1 = nn.Conv2d(ch, ch, 3, padding=1, bias=False)
        self.b1 = nn.BatchNorm2d(ch)
        self.c2 = nn.Conv2d(ch, ch, 3, padding=1, bias=False)
        self.b2 = nn.BatchNorm2d(ch)

    def forward(self, x):
        h = F.relu(self.b1(self.c1(x)))
        return F.relu(x + self.b2(self.c2(h)))


class Teacher(nn.Module):
    def __init__(self, width=40):
        super().__init__()
        self.stem = nn.Conv2d(3, width, 3, stride=2, padding=1)
        self.stage1 = nn.Sequential(Residual(width), Residual(width))
        self.down = nn.Conv2d(width, 2 * width, 3, stride=2, padding=1)
        self.stage2 = nn.Sequential(Residual(2 * width), Residual(2 * width))
        self.fc = nn.Linear(2 * width, CLASSES)

    def forward(self, x):
        h = self.stage1(F.relu(self.stem(x)))
        h = self.stage2(F.relu(self.down(h)))
        return self.fc(h.mean(dim=(2, 3)))


class Student(nn.Module):
    def __init__(self, width=24):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(3, width, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU(),
            nn.Conv2d(width, 2 * width, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(2 * width), nn.ReLU(),
            nn.Conv2d(2 * width, 2 * width, 3, padding=1, bias=False), nn.BatchNorm2d(2 * width), nn.ReLU())
        self.fc = nn.Linear(2 * width, CLASSES)

    def forward(self, x):
        return self.fc(self.net(x).mean(dim=(2, 3)))


def make_images(count, seed):
    rng = np.random.default_rng(seed)
    yy, xx = np.mgrid[0:32, 0:32].astype(np.float32) / 32.0
    base = rng.normal(0, 1, size=(CLASSES, 3, 3)).astype(np.float32)
    label = rng.integers(0, CLASSES, count)
    phase = rng.uniform(0, 6.28, size=(count, 1, 1)).astype(np.float32)
    freq = 4.0 + 2.0 * label[:, None, None].astype(np.float32)
    wave = np.sin(freq * xx[None] + phase) + np.cos(freq * 0.5 * yy[None] + phase)
    color = base[label][:, :, 0]
    img = color[:, :, None, None] * wave[:, None] + rng.normal(0, 0.6, size=(count, 3, 32, 32))
    return torch.from_numpy(img.astype(np.float32)), torch.from_numpy(label)


def warm_up_teacher(teacher, x, y, steps):
    opt = torch.optim.Adam(teacher.fc.parameters(), lr=1e-2)
    teacher.eval()
    with torch.no_grad():
        parts = []
        for i in range(0, 512, 64):
            h = teacher.stage1(F.relu(teacher.stem(x[i:i + 64])))
            parts.append(teacher.stage2(F.relu(teacher.down(h))).mean(dim=(2, 3)))
        feats = torch.cat(parts)
    for _ in range(steps):
        loss = F.cross_entropy(teacher.fc(feats), y[:512])
        opt.zero_grad()
        loss.backward()
        opt.step()
    return teacher


def distill_loss(student_logits, teacher_logits, y, temperature, weight):
    soft = F.kl_div(F.log_softmax(student_logits / temperature, dim=1),
                    F.softmax(teacher_logits / temperature, dim=1),
                    reduction="batchmean") * temperature ** 2
    hard = F.cross_entropy(student_logits, y)
    return weight * soft + (1.0 - weight) * hard


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--steps", type=int, default=400)
    p.add_argument("--batch-size", type=int, default=64)
    p.add_argument("--images", type=int, default=6000)
    p.add_argument("--temperature", type=float, default=4.0)
    p.add_argument("--kd-weight", type=float, default=0.7)
    p.add_argument("--lr", type=float, default=0.05)
    args = p.parse_args()

    torch.manual_seed(0)
    x, y = make_images(args.images, seed=3)
    teacher = warm_up_teacher(Teacher(), x, y, steps=100)
    student = Student()
    opt = torch.optim.SGD(student.parameters(), lr=args.lr, momentum=0.9, weight_decay=5e-4)
    sched = torch.optim.lr_scheduler.OneCycleLR(opt, max_lr=args.lr, total_steps=args.steps)

    teacher.eval()
    student.train()
    start = time.time()
    for step in range(1, args.steps + 1):
        idx = torch.randint(0, args.images, (args.batch_size,))
        xb, yb = x[idx], y[idx]
        if torch.rand(()) < 0.5:
            xb = xb.flip(3)
        teacher_logits = teacher(xb)
        student_logits = student(xb)
        loss = distill_loss(student_logits, teacher_logits, yb, args.temperature, args.kd_weight)
        opt.zero_grad()
        loss.backward()
        opt.step()
        sched.step()
        if step % 20 == 0:
            acc = (student_logits.argmax(1) == yb).float().mean().item()
            print(f"step {step} loss {loss.item():.4f} acc {acc:.3f} elapsed {time.time() - start:.2f}s", flush=True)


if __name__ == "__main__":
    main()

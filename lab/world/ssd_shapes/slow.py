"""A tiny single-shot detector for coloured boxes on noise."""
import argparse

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

IMG = 64
STRIDE = 8
SCALES = (12, 20, 30)
RATIOS = (1.0, 2.0)
NUM_CLASSES = 3


def make_anchors():
    boxes = []
    for gy in range(IMG // STRIDE):
        for gx in range(IMG // STRIDE):
            cx, cy = (gx + 0.5) * STRIDE, (gy + 0.5) * STRIDE
            for s in SCALES:
                for r in RATIOS:
                    w, h = s * r ** 0.5, s / r ** 0.5
                    boxes.append([cx - w / 2, cy - h / 2, cx + w / 2, cy + h / 2])
    return np.array(boxes)


class Shapes(Dataset):
    def __init__(self, n, seed):
        rng = np.random.default_rng(seed)
        self.images = rng.normal(0, 0.3, (n, 3, IMG, IMG)).astype(np.float32)
        self.boxes, self.labels = [], []
        for i in range(n):
            k = rng.integers(1, 5)
            wh = rng.integers(10, 32, (k, 2))
            xy = rng.integers(0, IMG - wh)
            cls = rng.integers(0, NUM_CLASSES, k)
            for (x, y), (w, h), c in zip(xy, wh, cls):
                self.images[i, c, y:y + h, x:x + w] += 1.0
            self.boxes.append(np.concatenate([xy, xy + wh], axis=1).astype(np.float64))
            self.labels.append(cls)

    def __len__(self):
        return len(self.images)

    def __getitem__(self, i):
        return torch.from_numpy(self.images[i]), self.boxes[i], self.labels[i]


def collate(batch):
    images, boxes, labels = zip(*batch)
    return torch.stack(images), boxes, labels


def iou(a, b):
    x1, y1 = max(a[0], b[0]), max(a[1], b[1])
    x2, y2 = min(a[2], b[2]), min(a[3], b[3])
    inter = max(x2 - x1, 0.0) * max(y2 - y1, 0.0)
    area_a = (a[2] - a[0]) * (a[3] - a[1])
    area_b = (b[2] - b[0]) * (b[3] - b[1])
    return inter / (area_a + area_b - inter)


def iou_matrix(anchors, gts):
    out = np.zeros((len(anchors), len(gts)))
    gts = gts.tolist()
    for i, anchor in enumerate(anchors.tolist()):
        for j, gt in enumerate(gts):
            out[i, j] = iou(anchor, gt)
    return out


def assign(anchors, gts, labels):
    overlaps = iou_matrix(anchors, gts)
    best_gt = overlaps.argmax(axis=1)
    best_iou = overlaps.max(axis=1)
    best_anchor = overlaps.argmax(axis=0)
    best_gt[best_anchor] = np.arange(len(gts))
    best_iou[best_anchor] = 1.0
    cls = np.where(best_iou >= 0.5, labels[best_gt] + 1, 0)
    gt = gts[best_gt]
    aw, ah = anchors[:, 2] - anchors[:, 0], anchors[:, 3] - anchors[:, 1]
    gw, gh = gt[:, 2] - gt[:, 0], gt[:, 3] - gt[:, 1]
    dx = ((gt[:, 0] + gt[:, 2]) - (anchors[:, 0] + anchors[:, 2])) / 2 / aw
    dy = ((gt[:, 1] + gt[:, 3]) - (anchors[:, 1] + anchors[:, 3])) / 2 / ah
    loc = np.stack([dx, dy, np.log(gw / aw), np.log(gh / ah)], axis=1)
    return cls, loc.astype(np.float32)


class Detector(nn.Module):
    def __init__(self, n_per_cell):
        super().__init__()

        def block(i, o):
            return nn.Sequential(nn.Conv2d(i, o, 3, stride=2, padding=1), nn.BatchNorm2d(o), nn.ReLU(),
                                 nn.Conv2d(o, o, 3, padding=1), nn.BatchNorm2d(o), nn.ReLU())

        self.backbone = nn.Sequential(block(3, 16), block(16, 32), block(32, 64))
        self.cls = nn.Conv2d(64, n_per_cell * (NUM_CLASSES + 1), 3, padding=1)
        self.loc = nn.Conv2d(64, n_per_cell * 4, 3, padding=1)

    def forward(self, x):
        f = self.backbone(x)
        cls = self.cls(f).permute(0, 2, 3, 1).reshape(len(x), -1, NUM_CLASSES + 1)
        loc = self.loc(f).permute(0, 2, 3, 1).reshape(len(x), -1, 4)
        return cls, loc


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=1300)
    parser.add_argument("--batch", type=int, default=12)
    parser.add_argument("--lr", type=float, default=1e-3)
    args = parser.parse_args()
    torch.manual_seed(0)

    anchors = make_anchors()
    loader = DataLoader(Shapes(960, 0), batch_size=args.batch, shuffle=True, collate_fn=collate, drop_last=True)
    model = Detector(len(SCALES) * len(RATIOS))
    opt = torch.optim.Adam(model.parameters(), lr=args.lr)
    class_weight = torch.tensor([0.2] + [1.0] * NUM_CLASSES)

    step = 0
    while step < args.steps:
        for images, boxes, labels in loader:
            targets = [assign(anchors, b, l) for b, l in zip(boxes, labels)]
            cls_t = torch.from_numpy(np.stack([t[0] for t in targets]))
            loc_t = torch.from_numpy(np.stack([t[1] for t in targets]))
            cls_p, loc_p = model(images)
            pos = cls_t > 0
            cls_loss = F.cross_entropy(cls_p.flatten(0, 1), cls_t.flatten(), weight=class_weight)
            loc_loss = F.smooth_l1_loss(loc_p[pos], loc_t[pos])
            loss = cls_loss + loc_loss
            opt.zero_grad()
            loss.backward()
            opt.step()
            step += 1
            if step % 25 == 0:
                print(f"step {step} cls {cls_loss.item():.4f} loc {loc_loss.item():.4f}", flush=True)
            if step >= args.steps:
                break


if __name__ == "__main__":
    main()

"""Segment synthetic microscopy images (background, cell body, nucleus) with a small U-Net.

The net follows the usual encoder-decoder layout with deep supervision on the coarser decoder
stages. Cross entropy plus soft Dice per output; the weights of the outputs come from CONFIG.
"""

import time

import torch
import torch.nn.functional as F
from torch import nn

CONFIG = {
    "classes": 3,
    "size": 64,
    "batch": 4,
    "width": 10,
    "lr": 2e-3,
    "steps": 360,
    "ds_weights": (1.0, 0.0, 0.0),  # run 14: final output only
}


def draw_cells(count, size, generator):
    """Discs with a smaller bright disc inside; returns images and label maps."""
    grid = torch.arange(size, dtype=torch.float32)
    yy, xx = torch.meshgrid(grid, grid, indexing="ij")
    images = 0.3 * torch.randn(count, size, size, generator=generator)
    labels = torch.zeros(count, size, size, dtype=torch.long)
    for i in range(count):
        for _ in range(4):
            cy, cx = (torch.rand(2, generator=generator) * size).tolist()
            radius = 6 + 5 * torch.rand(1, generator=generator).item()
            dist = ((yy - cy) ** 2 + (xx - cx) ** 2).sqrt()
            labels[i][dist < radius] = 1
            labels[i][dist < 0.4 * radius] = 2
        images[i] += labels[i].float() * 0.7
    return images.unsqueeze(1), labels


class DoubleConv(nn.Sequential):
    def __init__(self, c_in, c_out):
        super().__init__(
            nn.Conv2d(c_in, c_out, 3, padding=1, bias=False),
            nn.BatchNorm2d(c_out),
            nn.ReLU(inplace=True),
            nn.Conv2d(c_out, c_out, 3, padding=1, bias=False),
            nn.BatchNorm2d(c_out),
            nn.ReLU(inplace=True),
        )


class SideHead(nn.Module):
    """Class scores of a decoder stage, brought to the size of the label map."""

    def __init__(self, c_in, classes, scale):
        super().__init__()
        self.scale = scale
        self.conv = nn.Conv2d(c_in, c_in, 3, padding=1)
        self.score = nn.Conv2d(c_in, classes, 1)

    def forward(self, x):
        if self.scale > 1:
            x = F.interpolate(x, scale_factor=self.scale, mode="bilinear", align_corners=False)
        return self.score(F.relu(self.conv(x)))


class UNet(nn.Module):
    def __init__(self, classes, width):
        super().__init__()
        w = width
        self.enc1 = DoubleConv(1, w)
        self.enc2 = DoubleConv(w, 2 * w)
        self.enc3 = DoubleConv(2 * w, 4 * w)
        self.up2 = nn.ConvTranspose2d(4 * w, 2 * w, 2, stride=2)
        self.dec2 = DoubleConv(4 * w, 2 * w)
        self.up1 = nn.ConvTranspose2d(2 * w, w, 2, stride=2)
        self.dec1 = DoubleConv(2 * w, w)
        self.heads = nn.ModuleList(
            [
                SideHead(w, classes, 1),
                SideHead(2 * w, classes, 2),
                SideHead(4 * w, classes, 4),
            ]
        )

    def forward(self, x, weights=None):
        e1 = self.enc1(x)
        e2 = self.enc2(F.max_pool2d(e1, 2))
        e3 = self.enc3(F.max_pool2d(e2, 2))
        d2 = self.dec2(torch.cat([self.up2(e3), e2], 1))
        d1 = self.dec1(torch.cat([self.up1(d2), e1], 1))
        if weights is None:
            weights = (1.0, 0.0, 0.0)
        stages = zip(self.heads, (d1, d2, e3), weights)
        return [head(stage) if weight else None for head, stage, weight in stages]


def dice_loss(logits, target, eps=1.0):
    probs = logits.softmax(1)
    onehot = F.one_hot(target, logits.size(1)).permute(0, 3, 1, 2).to(probs.dtype)
    inter = (probs * onehot).sum((0, 2, 3))
    total = probs.sum((0, 2, 3)) + onehot.sum((0, 2, 3))
    return 1 - ((2 * inter + eps) / (total + eps)).mean()


def segmentation_loss(outputs, target, weights):
    loss = 0.0
    for weight, logits in zip(weights, outputs):
        if logits is None:
            continue
        loss = loss + weight * (F.cross_entropy(logits, target) + dice_loss(logits, target))
    return loss


@torch.no_grad()
def mean_iou(model, images, labels, classes):
    model.eval()
    pred = model(images)[0].argmax(1)
    model.train()
    scores = []
    for c in range(classes):
        inter = ((pred == c) & (labels == c)).sum().item()
        union = ((pred == c) | (labels == c)).sum().item()
        scores.append(inter / max(union, 1))
    return sum(scores) / classes


def main():
    torch.manual_seed(0)
    rng = torch.Generator().manual_seed(2)
    images, labels = draw_cells(256, CONFIG["size"], rng)
    val_images, val_labels = draw_cells(16, CONFIG["size"], rng)
    model = UNet(CONFIG["classes"], CONFIG["width"])
    optimizer = torch.optim.AdamW(model.parameters(), lr=CONFIG["lr"], weight_decay=1e-4)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, CONFIG["steps"])

    times = []
    for step in range(1, CONFIG["steps"] + 1):
        start = time.perf_counter()
        pick = torch.randint(len(images), (CONFIG["batch"],), generator=rng)
        outputs = model(images[pick], CONFIG["ds_weights"])
        loss = segmentation_loss(outputs, labels[pick], CONFIG["ds_weights"])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        times.append(time.perf_counter() - start)
        if step % 120 == 0:
            iou = mean_iou(model, val_images, val_labels, CONFIG["classes"])
            print(f"step {step:4d}  loss {loss.item():.4f}  val mIoU {iou:.3f}")

    rest = sorted(times[30:])
    print(
        f"median step {1000 * rest[len(rest) // 2]:.2f} ms  "
        f"mean {1000 * sum(rest) / len(rest):.2f} ms"
    )


if __name__ == "__main__":
    main()

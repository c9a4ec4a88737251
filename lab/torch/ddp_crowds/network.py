"""A network in two stages: features of the frame, then a pose for each person in it."""

import station
import torch
from torch import nn

CROP = 7


class Backbone(nn.Sequential):
    """Features of a frame, at an eighth of its resolution."""

    def __init__(self, width):
        super().__init__(
            nn.Conv2d(3, width, 5, stride=4, padding=2),
            nn.ReLU(),
            nn.Conv2d(width, 2 * width, 3, stride=2, padding=1),
            nn.ReLU(),
        )


class Head(nn.Module):
    """Cuts each box out of the features, and tells the pose."""

    def __init__(self, width):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(width, 2 * width, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(2 * width, 2 * width, 3, padding=1),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(2 * width, station.POSES),
        )

    def forward(self, features, boxes, frame):
        x, y, size = boxes.unbind(dim=1)
        zero = torch.zeros_like(x)
        rows = torch.stack([size, zero, x, zero, size, y], dim=1).view(-1, 2, 3)
        grid = nn.functional.affine_grid(rows, [len(boxes), 1, CROP, CROP], align_corners=False)
        crops = nn.functional.grid_sample(features[frame], grid, align_corners=False)
        return self.layers(crops)


class PoseNetwork(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.backbone = Backbone(width)
        self.head = Head(2 * width)

    def forward(self, batch):
        return self.head(self.backbone(batch.pixels), batch.boxes, batch.frame)

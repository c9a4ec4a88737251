"""Frames of a camera at a station, in the order of time: many people by day, few by night."""

from typing import NamedTuple

import torch
from torch.utils.data import Dataset

SIDE, POSES = 96, 6


class Frame(NamedTuple):
    """A frame, the boxes of people in it as (x, y, size) in -1..1, and their poses."""

    pixels: torch.Tensor
    boxes: torch.Tensor
    poses: torch.Tensor


class Batch(NamedTuple):
    """Frames side by side; `frame` is the number of the frame of each box."""

    pixels: torch.Tensor
    boxes: torch.Tensor
    frame: torch.Tensor
    poses: torch.Tensor


class Frames(Dataset):
    """Frames of a day and a night.

    Args:
        count: Frames.
        by_day: People in a frame by day.
        by_night: People in a frame by night.
    """

    def __init__(self, count=256, by_day=24, by_night=4):
        random = torch.Generator().manual_seed(0)
        self.frames = []
        for number in range(count):
            usual = by_day if number < count // 2 else by_night
            people = usual + int(torch.randint(-2, 3, (), generator=random))
            boxes = torch.rand(people, 3, generator=random) * 2 - 1
            boxes[:, 2] = 0.1 + 0.1 * boxes[:, 2].abs()
            poses = torch.randint(0, POSES, (people,), generator=random)
            self.frames.append(Frame(torch.rand(3, SIDE, SIDE, generator=random), boxes, poses))

    def __len__(self):
        return len(self.frames)

    def __getitem__(self, number):
        return self.frames[number]


def collate(frames):
    """A batch of frames with any number of boxes each."""
    counts = torch.tensor([len(frame.boxes) for frame in frames])
    return Batch(
        torch.stack([frame.pixels for frame in frames]),
        torch.cat([frame.boxes for frame in frames]),
        torch.arange(len(frames)).repeat_interleave(counts),
        torch.cat([frame.poses for frame in frames]),
    )

"""Trains convolutions on images that a data set makes one by one, on the processor."""

import torch
import training
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Images(Dataset):
    """Images that are filtered and clipped `passes` times."""

    def __init__(self, count, side, passes):
        self.count, self.side, self.passes = count, side, passes

    def __len__(self):
        return self.count

    def __getitem__(self, number):
        random = torch.Generator().manual_seed(number)
        image = torch.randn(3, self.side, self.side, generator=random)
        for _ in range(self.passes):
            image = (image + image.roll(1, -1)).mul(0.7).clamp(-2, 2)
        return image


def main():
    sizes = {"batch": 64, "side": 224, "passes": 1, "channels": 96, "layers": 10, "workers": 0}
    parser = training.parser(__doc__, **sizes)
    parser.add_argument("--pageable", action="store_true", help="do not pin batches")
    options = parser.parse_args()

    training.start()
    torch.set_num_threads(1)
    ahead = {"persistent_workers": True, "prefetch_factor": 4} if options.workers else {}
    loader = DataLoader(
        Images(options.batch * options.steps, options.side, options.passes),
        batch_size=options.batch,
        num_workers=options.workers,
        pin_memory=training.DEVICE == "cuda" and not options.pageable,
        **ahead,
    )
    layers = [nn.Conv2d(3, options.channels, 3, padding=1)]
    for _ in range(options.layers):
        layers += [nn.ReLU(), nn.Conv2d(options.channels, options.channels, 3, padding=1)]
    model = nn.Sequential(*layers).to(training.DEVICE, memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    batches = iter(loader)

    def step(_number):
        images = next(batches).to(training.DEVICE, non_blocking=True)
        with training.mixed():
            loss = (model(images) - 1).float().square().mean()
        return training.update(optimizer, loss)

    training.run(step, options)


if __name__ == "__main__":
    main()

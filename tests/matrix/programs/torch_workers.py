"""A DataLoader with two workers, started by the method that the first argument names."""

import sys
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Shapes(Dataset):
    def __len__(self):
        return 640

    def __getitem__(self, index):
        time.sleep(0.0002)
        generator = torch.Generator().manual_seed(index)
        image = torch.rand(3, 16, 16, generator=generator)
        return image, index % 10


def main(method):
    torch.manual_seed(23)
    loader = DataLoader(
        Shapes(),
        batch_size=16,
        shuffle=True,
        num_workers=2,
        multiprocessing_context=method,
        generator=torch.Generator().manual_seed(23),
    )
    model = nn.Sequential(nn.Flatten(), nn.Linear(768, 256), nn.ReLU(), nn.Linear(256, 10))
    optimizer = torch.optim.Adam(model.parameters())
    for step, (images, labels) in enumerate(loader):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        if step % 10 == 0:
            print(step, loss.item())
    print("done", loss.item())


if __name__ == "__main__":
    main(sys.argv[1])

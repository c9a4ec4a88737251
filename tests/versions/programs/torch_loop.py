"""A PyTorch loop with a loader, its workers, torch.compile and a checkpoint."""

import tempfile

import torch
from torch.utils.data import DataLoader, TensorDataset

STEPS = 60


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    data = TensorDataset(torch.randn(30 * 16, 256), torch.randn(30 * 16, 1))
    loader = DataLoader(data, batch_size=16, num_workers=1, shuffle=True)
    model = torch.nn.Sequential(torch.nn.Linear(256, 2048), torch.nn.ReLU())
    head = torch.nn.Linear(2048, 1)
    # The eager backend of Dynamo needs no compiler of C++.
    scaled = torch.compile(lambda x: x * 2 + 1, backend="eager")
    optimizer = torch.optim.AdamW([*model.parameters(), *head.parameters()])
    for _ in range(STEPS // len(loader)):
        for inputs, targets in loader:
            loss = (head(model(scaled(inputs))) - targets).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    with tempfile.TemporaryDirectory() as folder:
        torch.save({"loss": torch.zeros(30_000_000)}, f"{folder}/checkpoint.pt")
    print(float(loss))


if __name__ == "__main__":
    main()

"""A DataLoader in the training process, two epochs, validation after each."""

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset, random_split

torch.manual_seed(22)
images = torch.rand(800, 1, 16, 16)
data = TensorDataset(images, (images.mean((1, 2, 3)) * 40).long() % 4)
training, validation = random_split(data, [640, 160])
train_loader = DataLoader(training, batch_size=32, shuffle=True)
validation_loader = DataLoader(validation, batch_size=80)


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.convolution = nn.Conv2d(1, 8, 3)
        self.norm = nn.BatchNorm2d(8)
        self.head = nn.Linear(8 * 14 * 14, 4)

    def forward(self, x):
        x = functional.relu(self.norm(self.convolution(x)))
        return self.head(x.flatten(1))


model = Network()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for epoch in range(2):
    model.train()
    for inputs, labels in train_loader:
        loss = functional.cross_entropy(model(inputs), labels)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        correct = sum(int((model(x).argmax(1) == y).sum()) for x, y in validation_loader)
    print(f"epoch {epoch}: loss {loss.item()!r}, {correct} of 160 right")

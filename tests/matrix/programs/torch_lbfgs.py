"""LBFGS, whose steps call a closure several times."""

import torch

torch.manual_seed(28)
points = torch.randn(256, 40, dtype=torch.float64)
target = (points @ torch.randn(40, 1, dtype=torch.float64)).sin()
model = torch.nn.Sequential(
    torch.nn.Linear(40, 60), torch.nn.Tanh(), torch.nn.Linear(60, 1)
).double()
optimizer = torch.optim.LBFGS(model.parameters(), lr=0.2, max_iter=5, history_size=5)
calls = 0


def closure():
    global calls  # noqa: PLW0603
    calls += 1
    optimizer.zero_grad()
    loss = torch.nn.functional.mse_loss(model(points), target)
    loss.backward()
    return loss


for step in range(30):
    loss = optimizer.step(closure)
    print(step, calls, loss.item())

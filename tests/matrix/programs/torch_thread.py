"""The training runs in a thread; the main thread waits for its results."""

import queue
import threading

import torch
from torch import nn


def train(results):
    torch.manual_seed(31)
    model = nn.Sequential(nn.Linear(80, 320), nn.ReLU(), nn.Linear(320, 1))
    optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-3)
    for step in range(40):
        x = torch.randn(96, 80)
        optimizer.zero_grad()
        loss = nn.functional.huber_loss(model(x), x[:, :1] * 3)
        loss.backward()
        optimizer.step()
        results.put((step, loss.item()))
    results.put(None)


results = queue.Queue()
worker = threading.Thread(target=train, args=(results,), name="trainer")
worker.start()
while (result := results.get()) is not None:
    print("step {}: {:.9f}".format(*result))
worker.join()

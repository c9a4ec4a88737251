"""An endless IterableDataset that the loop breaks out of."""

import itertools

import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset


class Stream(IterableDataset):
    def __iter__(self):
        generator = torch.Generator().manual_seed(24)
        while True:
            tokens = torch.randint(0, 50, (17,), generator=generator)
            yield tokens[:-1], tokens[1:]


torch.manual_seed(24)
embedding = nn.Embedding(50, 32)
recurrent = nn.GRU(32, 64, batch_first=True)
head = nn.Linear(64, 50)
parameters = [*embedding.parameters(), *recurrent.parameters(), *head.parameters()]
optimizer = torch.optim.Adagrad(parameters, lr=0.05)

loader = DataLoader(Stream(), batch_size=8)
for step, (tokens, following) in enumerate(itertools.islice(loader, 40)):
    states, _ = recurrent(embedding(tokens))
    loss = nn.functional.cross_entropy(head(states).flatten(0, 1), following.flatten())
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    if not step % 10:
        print(step, loss.item())
print(f"perplexity {loss.exp().item()!r}")

"""A PyTorch loop of padded sequences without a compiler, whose operations can be looked at."""

import torch

STEPS = 60


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    words = torch.nn.Embedding(100, 128, padding_idx=0)
    layer, head = torch.nn.Linear(128, 512), torch.nn.Linear(512, 1)
    modules = torch.nn.ModuleList([words, layer, head])
    optimizer = torch.optim.AdamW(modules.parameters())
    for _ in range(STEPS):
        batch = torch.randint(1, 100, (32, 40))
        batch[:, 30:] = 0
        loss = head(torch.relu(layer(words(batch))).mean(1)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(float(loss))


if __name__ == "__main__":
    main()

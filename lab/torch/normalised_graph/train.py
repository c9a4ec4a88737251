"""Trains a graph network that spreads the features of papers along their citations."""

import argparse
import statistics
import time

import torch
from torch import nn


class GraphNetwork(nn.Module):
    """Two layers over the normalised matrix of a graph.

    Args:
        graph: Matrix of a graph: 1 between neighbours; (nodes, nodes).
        width: Numbers per node in the hidden layer.
        keep: Whether to normalise the matrix once, instead of in every forward pass.
    """

    def __init__(self, graph, features, width, classes, keep):
        super().__init__()
        self.keep = keep
        self.register_buffer("graph", normalised(graph) if keep else graph)
        self.first = nn.Linear(features, width)
        self.second = nn.Linear(width, classes)

    def forward(self, features):
        graph = self.graph if self.keep else normalised(self.graph)
        hidden = torch.relu(graph @ self.first(features))
        return graph @ self.second(hidden)


def normalised(graph):
    """The matrix with itself as a neighbour of each node, divided by the roots of the degrees."""
    graph = graph + torch.eye(len(graph))
    scale = graph.sum(1).rsqrt()
    return scale[:, None] * graph * scale[None, :]


def make_papers(nodes, features, classes):
    """A graph in which papers cite those of their class, and noisy features of the class."""
    labels = torch.randint(classes, [nodes])
    is_alike = labels[:, None] == labels[None, :]
    graph = (torch.rand(nodes, nodes) < 0.002 + 0.008 * is_alike).float()
    return (graph + graph.T).clamp(max=1), torch.randn(nodes, features) + labels[:, None], labels


def train(options):
    torch.manual_seed(7)
    graph, features, labels = make_papers(options.nodes, 32, 6)
    model = GraphNetwork(graph, 32, options.width, 6, options.keep)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    times = []
    for step in range(options.steps):
        start = time.perf_counter()
        loss = nn.functional.cross_entropy(model(features), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        times.append(time.perf_counter() - start)
        if (step + 1) % 50 == 0:
            print(f"step {step + 1:3d}  loss {loss.item():.4f}", flush=True)
    print(f"median step {1000 * statistics.median(times[5:]):.1f} ms")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keep", action="store_true", help="normalise the graph once")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--nodes", type=int, default=1500)
    parser.add_argument("--width", type=int, default=32)
    train(parser.parse_args())


if __name__ == "__main__":
    main()

import torch
import torch.nn.functional as F
from torch import nn


class Propagate(torch.autograd.Function):
    """A @ h for a symmetric sparse A, which is its own transpose in the backward pass."""

    @staticmethod
    def forward(ctx, adj, h):
        ctx.adj = adj
        return adj @ h

    @staticmethod
    def backward(ctx, grad):
        return None, ctx.adj @ grad.contiguous()


class GCN(nn.Module):
    def __init__(self, feats, hidden, classes, dropout=0.4):
        super().__init__()
        self.l1 = nn.Linear(feats, hidden)
        self.l2 = nn.Linear(hidden, hidden)
        self.l3 = nn.Linear(hidden, classes)
        self.dropout = dropout

    def forward(self, adj, x):
        h = F.relu(Propagate.apply(adj, self.l1(x)))
        h = F.dropout(h, self.dropout, self.training)
        h = F.relu(Propagate.apply(adj, self.l2(h)))
        h = F.dropout(h, self.dropout, self.training)
        return Propagate.apply(adj, self.l3(h))

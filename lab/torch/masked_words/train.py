"""Pretrains a small encoder: it guesses the words of a sentence that were masked."""

import argparse
import statistics
import time

import torch
from torch import nn
from torch.nn import functional

WORDS, SENTENCES, MASK, IGNORED = 6000, 4096, 0, -100


class Encoder(nn.Module):
    """A vector for each word of a sentence, and scores of the words that may stand there.

    Args:
        width: Numbers in a vector.
        length: Words of a sentence.
    """

    def __init__(self, width, length):
        super().__init__()
        self.words, self.places = nn.Embedding(WORDS, width), nn.Embedding(length, width)
        layer = nn.TransformerEncoderLayer(width, 4, 2 * width, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.guess, self.norm = nn.Linear(width, width), nn.LayerNorm(width)
        self.score = nn.Linear(width, WORDS)

    def forward(self, sentences):
        return self.encoder(self.words(sentences) + self.places.weight)

    def scores(self, vectors):
        hidden = self.norm(functional.gelu(self.guess(vectors)))
        return self.score(hidden)


def make_sentences(length):
    """Sentences whose words follow from the one before."""
    random = torch.Generator().manual_seed(5)
    first = torch.randint(1, WORDS, [SENTENCES, 1], generator=random)
    return (first + 7 * torch.arange(length)) % (WORDS - 1) + 1


def mask(sentences):
    """Replace 15 % of the words; the labels of the others are ignored."""
    is_masked = torch.rand(sentences.shape) < 0.15
    return sentences.masked_fill(is_masked, MASK), sentences.masked_fill(~is_masked, IGNORED)


def train(options):
    torch.manual_seed(5)
    sentences = make_sentences(options.length)
    model = Encoder(options.width, options.length)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    times = []
    for step in range(options.steps):
        start = time.perf_counter()
        chosen = torch.randint(0, SENTENCES, [options.batch])
        masked, labels = mask(sentences[chosen])
        vectors, labels = model(masked).flatten(0, 1), labels.flatten()
        if options.scores == "masked":
            vectors, labels = vectors[labels != IGNORED], labels[labels != IGNORED]
        loss = functional.cross_entropy(model.scores(vectors), labels, ignore_index=IGNORED)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        times.append(time.perf_counter() - start)
        if (step + 1) % 20 == 0:
            print(f"step {step + 1:3d}  loss {loss.item():.4f}", flush=True)
    print(f"median step {1000 * statistics.median(times[5:]):.1f} ms")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scores", choices=["all", "masked"], default="all")
    parser.add_argument("--steps", type=int, default=80)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--length", type=int, default=32)
    parser.add_argument("--width", type=int, default=64)
    train(parser.parse_args())


if __name__ == "__main__":
    main()

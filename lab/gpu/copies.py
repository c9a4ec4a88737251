"""Fits a network to measurements in host memory, of which each step copies some to the GPU."""

import torch
import training


class Copier:
    """Copies a batch when it is asked for."""

    def __init__(self, pool):
        self.pool = pool

    def batch(self, number):
        return self.pool[number % len(self.pool)].to(training.DEVICE)


class Ahead:
    """Copies the next batch on a stream of its own, from pinned memory, while one is computed."""

    def __init__(self, pool):
        self.pool = [batch.pin_memory() for batch in pool]
        self.stream = torch.cuda.Stream()
        self.next = self.copied(0)

    def copied(self, number):
        with torch.cuda.stream(self.stream):
            return self.pool[number % len(self.pool)].to(training.DEVICE, non_blocking=True)

    def batch(self, number):
        current = torch.cuda.current_stream()
        current.wait_stream(self.stream)
        batch = self.next
        batch.record_stream(current)
        self.next = self.copied(number + 1)
        return batch


def main():
    parser = training.parser(__doc__, rows=16384, width=4096, layers=4)
    parser.add_argument("--ahead", action="store_true", help="copy ahead, from pinned memory")
    options = parser.parse_args()

    training.start()
    pool = [torch.randn(options.rows, options.width) for _ in range(2)]
    ahead = options.ahead and training.DEVICE == "cuda"
    copies = (Ahead if ahead else Copier)(pool)
    model = training.dense(options.width, options.layers)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step(number):
        batch = copies.batch(number)
        with training.mixed():
            loss = (model(batch) - batch).float().square().mean()
        return training.update(optimizer, loss)

    training.run(step, options)


if __name__ == "__main__":
    main()

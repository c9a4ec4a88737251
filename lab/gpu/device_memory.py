"""Trains on batches of one or of many lengths, in all or in a part of the GPU's memory."""

import torch
import training


def limit(headroom):
    """Leave as much memory as a step needs, and some percent more, as on a shared GPU."""
    whole = torch.cuda.get_device_properties(0).total_memory
    needed = torch.cuda.max_memory_allocated() * (1 + headroom / 100)
    torch.cuda.empty_cache()
    torch.cuda.set_per_process_memory_fraction(min(needed / whole, 1.0))


def main():
    parser = training.parser(__doc__, rows=8192, lengths=1, width=4096, layers=12, headroom=0)
    parser.add_argument("--empty-cache", action="store_true", help="free memory after each step")
    options = parser.parse_args()

    training.start()
    model = training.dense(options.width, options.layers)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    inputs = torch.randn(options.rows, options.width, device=training.DEVICE)

    def step(number):
        if options.headroom and number == options.lengths and training.DEVICE == "cuda":
            limit(options.headroom)
        # Lengths from a third of the rows to all of them, in a mixed order.
        part = (number * 7 % options.lengths + 1) / options.lengths
        batch = inputs[: round(options.rows * (1 + 2 * part) / 3)]
        with training.mixed():
            loss = (model(batch) - batch).float().square().mean()
        training.update(optimizer, loss)
        if options.empty_cache:
            torch.cuda.empty_cache()
        return loss

    training.run(step, options)


if __name__ == "__main__":
    main()

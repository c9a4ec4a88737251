"""Trains a head behind frozen layers, whose weights stay in host memory or on the GPU."""

import torch
import training


def main():
    parser = training.parser(__doc__, rows=8192, width=8192, frozen=2, layers=4)
    parser.add_argument("--on-device", action="store_true", help="keep the weights on the GPU")
    options = parser.parse_args()

    training.start()
    scale = options.width**-0.5
    frozen = torch.randn(options.frozen, options.width, options.width) * scale
    if options.on_device:
        frozen = frozen.to(training.DEVICE)
    elif training.DEVICE == "cuda":
        frozen = frozen.pin_memory()
    head = training.dense(options.width, options.layers)
    optimizer = torch.optim.SGD(head.parameters(), lr=0.1)
    inputs = torch.randn(options.rows, options.width, device=training.DEVICE)

    def step(_number):
        with training.mixed():
            hidden = inputs
            for weights in frozen.to(training.DEVICE, non_blocking=True):
                hidden = torch.relu(hidden @ weights)
            loss = (head(hidden) - inputs).float().square().mean()
        return training.update(optimizer, loss)

    training.run(step, options)


if __name__ == "__main__":
    main()

"""Trains a deep network, and clips its gradients to a norm."""

import torch
import training

LARGEST = 1.0


def read_norm(parameters):
    """The norm, read from the device one parameter after another."""
    return sum(parameter.grad.norm().item() ** 2 for parameter in parameters) ** 0.5


def norm(parameters):
    """The norm, which stays on the device."""
    return torch.nn.utils.get_total_norm([parameter.grad for parameter in parameters])


def main():
    parser = training.parser(__doc__, rows=256, width=512, layers=100)
    parser.add_argument("--on-device", action="store_true", help="do not read the norms")
    options = parser.parse_args()

    training.start()
    model = training.dense(options.width, options.layers)
    parameters = list(model.parameters())
    optimizer = torch.optim.SGD(parameters, lr=0.1)
    inputs = torch.randn(options.rows, options.width, device=training.DEVICE)

    def step(_number):
        optimizer.zero_grad(set_to_none=True)
        loss = (model(inputs) - inputs).square().mean()
        loss.backward()
        size = (norm if options.on_device else read_norm)(parameters)
        factor = torch.as_tensor(LARGEST / (size + 1e-6), device=training.DEVICE).clamp(max=1.0)
        torch._foreach_mul_([parameter.grad for parameter in parameters], factor)
        optimizer.step()
        return loss

    training.run(step, options)


if __name__ == "__main__":
    main()

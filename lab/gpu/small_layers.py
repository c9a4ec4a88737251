"""Trains a network of many small layers."""

import torch
import training


class Graphed:
    """Records the third step as a CUDA graph, and replays it from then on."""

    EAGER = 3

    def __init__(self, step):
        self.step, self.graph, self.loss = step, None, None

    def warm_up(self, number):
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            loss = self.step(number)
        torch.cuda.current_stream().wait_stream(stream)
        return loss

    def __call__(self, number):
        if number < self.EAGER:
            return self.warm_up(number)
        if self.graph is None:
            self.graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graph):
                self.loss = self.step(number)
        self.graph.replay()
        return self.loss


def optimizer_of(name, parameters):
    if name == "loop":
        return torch.optim.Adam(parameters, lr=1e-3, foreach=False)
    if name == "fused":
        return torch.optim.Adam(parameters, lr=1e-3, fused=True)
    return torch.optim.SGD(parameters, lr=0.1)


def main():
    parser = training.parser(__doc__, rows=64, width=256, layers=150)
    parser.add_argument("--optimizer", choices=["sgd", "loop", "fused"], default="sgd")
    parser.add_argument("--graph", action="store_true", help="replay the step as a CUDA graph")
    options = parser.parse_args()

    training.start()
    model = training.dense(options.width, options.layers)
    optimizer = optimizer_of(options.optimizer, model.parameters())
    inputs = torch.randn(options.rows, options.width, device=training.DEVICE)

    def step(_number):
        return training.update(optimizer, (model(inputs) - inputs).square().mean())

    graphed = options.graph and training.DEVICE == "cuda"
    training.run(Graphed(step) if graphed else step, options)


if __name__ == "__main__":
    main()

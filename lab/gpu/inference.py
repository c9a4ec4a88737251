"""Predicts with a trained network, under autocast or converted to bfloat16 once."""

import torch
import training

try:
    from stepwhy import step as end_step
except ImportError:  # run without stepwhy

    def end_step():
        pass


def main():
    parser = training.parser(__doc__, rows=64, width=8192, layers=8)
    parser.add_argument("--converted", action="store_true", help="convert the network once")
    options = parser.parse_args()

    training.start()
    model = training.dense(options.width, options.layers).eval()
    inputs = torch.randn(options.rows, options.width, device=training.DEVICE)
    if options.converted:
        model, inputs = model.to(torch.bfloat16), inputs.to(torch.bfloat16)

    @torch.inference_mode()
    def predict(_number):
        with training.mixed(not options.converted):
            outputs = model(inputs)
        end_step()
        return outputs.float().square().mean()

    training.run(predict, options)


if __name__ == "__main__":
    main()

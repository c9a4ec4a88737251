"""Inception-v3, layer by layer.

Source: Szegedy et al., "Rethinking the Inception Architecture for Computer Vision" (2015), in the
form of TensorFlow's model garden (slim): the same branches, kernels and channel counts, without
dropout.
"""

import tensorflow.compat.v1 as tf

CLASSES = 1001
SMALLEST_IMAGE = 107  # the auxiliary head pools 5x5 pixels of what is left


class Inception:
    """Builds one tower.

    Args:
        width: What all channel counts are multiplied by; 1 is the paper's network.
        is_training: Whether batch norm takes the statistics of the batch.
        is_fused: Whether batch norm by stored statistics is one operation, or written out.
        variable_device: Where the variables live.
    """

    def __init__(self, width=1.0, is_training=True, variable_device="/cpu:0", is_fused=True):
        self.width = width
        self.is_training = is_training
        self.is_fused = is_fused
        self.variable_device = variable_device

    def variable(self, name, shape, initializer, trainable=True):
        with tf.device(self.variable_device):
            return tf.get_variable(name, shape, initializer=initializer, trainable=trainable)

    def conv(self, net, channels, kernel, name, *, stride=1, padding="SAME"):
        """Convolution, batch norm, ReLU."""
        height, width = kernel if isinstance(kernel, tuple) else (kernel, kernel)
        channels = max(int(channels * self.width), 4)
        with tf.variable_scope(name):
            weights = self.variable(
                "weights",
                [height, width, net.shape[3], channels],
                tf.truncated_normal_initializer(stddev=0.1),
            )
            net = tf.nn.conv2d(net, weights, strides=stride, padding=padding)
            return tf.nn.relu(self.batch_norm(net, channels))

    def batch_norm(self, net, channels):
        scale = self.variable("gamma", [channels], tf.ones_initializer())
        offset = self.variable("beta", [channels], tf.zeros_initializer())
        mean = self.variable("moving_mean", [channels], tf.zeros_initializer(), trainable=False)
        variance = self.variable("moving_variance", [channels], tf.ones_initializer(), False)
        if not (self.is_training or self.is_fused):
            return (net - mean) / tf.sqrt(variance + 0.001) * scale + offset
        if not self.is_training:
            return tf.nn.fused_batch_norm(
                net, scale, offset, mean, variance, epsilon=0.001, is_training=False
            )[0]
        net, batch_mean, batch_variance = tf.nn.fused_batch_norm(net, scale, offset, epsilon=0.001)
        with tf.device(self.variable_device):
            for moving, batch in ((mean, batch_mean), (variance, batch_variance)):
                update = tf.assign_sub(moving, (moving - batch) * (1 - 0.9997))
                tf.add_to_collection(tf.GraphKeys.UPDATE_OPS, update)
        return net

    def branch(self, net, *layers):
        """Convolutions (channels, kernel) one after the other."""
        for i, (channels, kernel) in enumerate(layers):
            net = self.conv(net, channels, kernel, f"conv{i}_{_words(kernel)}")
        return net

    def stem(self, images):
        """299 x 299 -> 35 x 35."""
        net = self.conv(images, 32, 3, "conv1", stride=2, padding="VALID")
        net = self.conv(net, 32, 3, "conv2", padding="VALID")
        net = self.conv(net, 64, 3, "conv3")
        net = max_pool(net)
        net = self.conv(net, 80, 1, "conv4", padding="VALID")
        net = self.conv(net, 192, 3, "conv5", padding="VALID")
        return max_pool(net)

    def mixed(self, net, name, *branches, pool=0):
        """Branches side by side; with `pool` channels, one more that averages first."""
        with tf.variable_scope(name):
            outputs = []
            for i, layers in enumerate(branches):
                with tf.variable_scope(f"branch{i}"):
                    outputs.append(self.branch(net, *layers))
            if pool:
                with tf.variable_scope("pool"):
                    average = tf.nn.avg_pool2d(net, 3, 1, "SAME")
                    outputs.append(self.conv(average, pool, 1, "conv0_1x1"))
            return tf.concat(outputs, 3)

    def reduce(self, net, name, *branches):
        """Branches whose last convolution halves the map, and a pool that does."""
        with tf.variable_scope(name):
            outputs = []
            for i, layers in enumerate(branches):
                with tf.variable_scope(f"branch{i}"):
                    *inner, (channels, kernel) = layers
                    last = self.branch(net, *inner)
                    outputs.append(
                        self.conv(last, channels, kernel, "reduce", stride=2, padding="VALID")
                    )
            return tf.concat([*outputs, max_pool(net)], 3)

    def split(self, net, name, before):
        """The 8 x 8 branch: convolutions, then 1x3 and 3x1 side by side."""
        with tf.variable_scope(name):
            net = self.branch(net, *before)
            sides = [
                self.conv(net, 384, (1, 3), "conv_1x3"),
                self.conv(net, 384, (3, 1), "conv_3x1"),
            ]
            return tf.concat(sides, 3)

    def last(self, net, name):
        """A block of the 8 x 8 grid."""
        with tf.variable_scope(name):
            outputs = [
                self.conv(net, 320, 1, "branch0"),
                self.split(net, "branch1", [(384, 1)]),
                self.split(net, "branch2", [(448, 1), (384, 3)]),
                self.conv(tf.nn.avg_pool2d(net, 3, 1, "SAME"), 192, 1, "pool"),
            ]
            return tf.concat(outputs, 3)

    def logits(self, net, name):
        """Mean over the map, and a matrix."""
        net = tf.reduce_mean(net, axis=[1, 2])
        with tf.variable_scope(name):
            initializer = tf.truncated_normal_initializer(stddev=0.01)
            weights = self.variable("weights", [net.shape[1], CLASSES], initializer)
            biases = self.variable("biases", [CLASSES], tf.zeros_initializer())
            return tf.nn.xw_plus_b(net, weights, biases)

    def auxiliary(self, net):
        """The head that trains the lower half."""
        with tf.variable_scope("auxiliary"):
            net = tf.nn.avg_pool2d(net, 5, 3, "VALID")
            net = self.conv(net, 128, 1, "conv1")
            net = self.conv(net, 768, tuple(net.shape[1:3].as_list()), "conv2", padding="VALID")
            return self.logits(net, "logits")

    def __call__(self, images):
        """Logits and auxiliary logits of NHWC images; (batch, classes) each."""
        net = self.stem(images)
        for i, pool in enumerate((32, 64, 64)):  # 35 x 35
            net = self.mixed(
                net,
                f"mixed_5{'bcd'[i]}",
                [(64, 1)],
                [(48, 1), (64, 5)],
                [(64, 1), (96, 3), (96, 3)],
                pool=pool,
            )
        net = self.reduce(net, "mixed_6a", [(384, 3)], [(64, 1), (96, 3), (96, 3)])
        for i, c in enumerate((128, 160, 160, 192)):  # 17 x 17
            net = self.mixed(
                net,
                f"mixed_6{'bcde'[i]}",
                [(192, 1)],
                [(c, 1), (c, (1, 7)), (192, (7, 1))],
                [(c, 1), (c, (7, 1)), (c, (1, 7)), (c, (7, 1)), (192, (1, 7))],
                pool=192,
            )
        auxiliary = self.auxiliary(net)
        net = self.reduce(
            net,
            "mixed_7a",
            [(192, 1), (320, 3)],
            [(192, 1), (192, (1, 7)), (192, (7, 1)), (192, 3)],
        )
        for name in ("mixed_7b", "mixed_7c"):  # 8 x 8
            net = self.last(net, name)
        return self.logits(net, "logits"), auxiliary


def max_pool(net):
    return tf.nn.max_pool2d(net, 3, 2, "VALID")


def _words(kernel):
    return f"{kernel[0]}x{kernel[1]}" if isinstance(kernel, tuple) else f"{kernel}x{kernel}"

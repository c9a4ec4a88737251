# Spectrally normalised GAN on 32x32 procedural textures, hinge loss.
import os
import time

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"
import numpy as np
import tensorflow as tf

tf.random.set_seed(11)
rng = np.random.default_rng(11)

BATCH, LATENT, STEPS, SIZE = 16, 64, 120, 32


def textures(n):
    yy, xx = np.mgrid[0:SIZE, 0:SIZE] / SIZE
    freq = rng.uniform(1, 5, (n, 3, 1, 1))
    ang = rng.uniform(0, np.pi, (n, 1, 1, 1))
    phase = rng.uniform(0, 2 * np.pi, (n, 3, 1, 1))
    img = np.sin(2 * np.pi * freq * (xx * np.cos(ang) + yy * np.sin(ang)) + phase)
    return np.transpose(img, (0, 2, 3, 1)).astype(np.float32)


def he(shape, fan_in):
    return tf.random.normal(shape, stddev=(2.0 / fan_in) ** 0.5)


class SNKernel(tf.Module):
    """A weight divided by its largest singular value (last axis = outputs)."""

    def __init__(self, shape):
        super().__init__()
        self.rows, self.cols = int(np.prod(shape[:-1])), shape[-1]
        self.w = tf.Variable(he(shape, self.rows), name="w")
        u = tf.math.l2_normalize(tf.random.normal([self.cols, 1]))
        for _ in range(20):
            u = self._advance(u)[0]
        self.u = tf.Variable(u, trainable=False, name="u")

    def _advance(self, u):
        mat = tf.reshape(self.w, [self.rows, self.cols])
        v = tf.math.l2_normalize(tf.matmul(mat, u))
        return tf.math.l2_normalize(tf.matmul(mat, v, transpose_a=True)), v

    def __call__(self, training):
        mat = tf.reshape(self.w, [self.rows, self.cols])
        u = self.u.read_value()
        if training:
            u, v = self._advance(u)
            self.u.assign(tf.stop_gradient(u))
        else:
            v = tf.math.l2_normalize(tf.matmul(mat, u))
        sigma = tf.reduce_sum(tf.stop_gradient(v) * tf.matmul(mat, tf.stop_gradient(u)))
        return self.w / sigma


class SNConv(tf.Module):
    def __init__(self, k, cin, cout, stride):
        super().__init__()
        self.kernel, self.stride = SNKernel((k, k, cin, cout)), stride
        self.b = tf.Variable(tf.zeros([cout]), name="b")

    def __call__(self, x, training):
        return tf.nn.conv2d(x, self.kernel(training), self.stride, "SAME") + self.b


class Critic(tf.Module):
    def __init__(self):
        super().__init__()
        self.convs = [SNConv(3, 3, 32, 1), SNConv(4, 32, 64, 2),
                      SNConv(4, 64, 128, 2), SNConv(4, 128, 256, 2)]
        self.out = SNKernel((4 * 4 * 256, 1))

    def __call__(self, x, training):
        for conv in self.convs:
            x = tf.nn.leaky_relu(conv(x, training), 0.1)
        return tf.matmul(tf.reshape(x, [-1, 4 * 4 * 256]), self.out(training))[:, 0]


class Generator(tf.Module):
    def __init__(self):
        super().__init__()
        self.fc = tf.Variable(he([LATENT, 4 * 4 * 128], LATENT), name="fc")
        chans = [128, 96, 64, 32]
        self.kernels = [tf.Variable(he([3, 3, a, b], 9 * a), name=f"k{i}")
                        for i, (a, b) in enumerate(zip(chans[:-1], chans[1:]))]
        self.scales = [tf.Variable(tf.ones([c]), name=f"s{i}") for i, c in enumerate(chans[1:])]
        self.shifts = [tf.Variable(tf.zeros([c]), name=f"t{i}") for i, c in enumerate(chans[1:])]
        self.rgb = tf.Variable(he([3, 3, 32, 3], 9 * 32), name="rgb")

    def __call__(self, z):
        x = tf.reshape(tf.matmul(z, self.fc), [-1, 4, 4, 128])
        for k, s, t in zip(self.kernels, self.scales, self.shifts):
            x = tf.repeat(tf.repeat(x, 2, axis=1), 2, axis=2)
            x = tf.nn.conv2d(x, k, 1, "SAME")
            mean, var = tf.nn.moments(x, [0, 1, 2])
            x = tf.nn.relu(tf.nn.batch_normalization(x, mean, var, t, s, 1e-5))
        return tf.tanh(tf.nn.conv2d(x, self.rgb, 1, "SAME"))


G, D = Generator(), Critic()
g_opt = tf.keras.optimizers.Adam(2e-4, beta_1=0.0, beta_2=0.9)
d_opt = tf.keras.optimizers.Adam(4e-4, beta_1=0.0, beta_2=0.9)


@tf.function
def train_step(real):
    fake = G(tf.random.normal([BATCH, LATENT]))
    with tf.GradientTape() as tape:
        score = D(tf.concat([real, fake], 0), training=True)
        d_loss = (tf.reduce_mean(tf.nn.relu(1.0 - score[:BATCH]))
                  + tf.reduce_mean(tf.nn.relu(1.0 + score[BATCH:])))
    d_opt.apply_gradients(zip(tape.gradient(d_loss, D.trainable_variables), D.trainable_variables))
    with tf.GradientTape(watch_accessed_variables=False) as tape:
        tape.watch(G.trainable_variables)
        fake = G(tf.random.normal([BATCH, LATENT]))
        g_loss = -tf.reduce_mean(D(fake, training=False))
    g_opt.apply_gradients(zip(tape.gradient(g_loss, G.trainable_variables), G.trainable_variables))
    return d_loss, g_loss


images = textures(2048)
data = (tf.data.Dataset.from_tensor_slices(images).shuffle(2048, seed=1).repeat()
        .batch(BATCH, drop_remainder=True).prefetch(2))
history, times = [], []
batches = iter(data)
for step in range(STEPS):
    t0 = time.perf_counter()
    d_loss, g_loss = train_step(next(batches))
    history.append((d_loss, g_loss))
    times.append(time.perf_counter() - t0)
    if (step + 1) % 40 == 0:
        d, g = np.mean([[float(a), float(b)] for a, b in history[-40:]], axis=0)
        print(f"{step + 1:4d}  D {d:.3f}  G {g:.3f}")
print(f"median {1000 * np.median(times[5:]):.2f} ms per step")

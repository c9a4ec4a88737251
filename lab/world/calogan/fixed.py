"""WGAN-GP for calorimeter showers with lazily applied gradient penalty (TF1 graph)."""
import os
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()

STEPS = int(os.environ.get("STEPS", "350"))
CELLS = 20           # 20 x 20 read-out cells
LATENT = 32
BATCH = 96
CRITIC_ITERS = 2
GP_WEIGHT, GP_EVERY = 10.0, 8


def make_showers(count=6000, seed=0):
    """Energy deposits of showers: an asymmetric core, a halo and sampling noise."""
    rng = np.random.default_rng(seed)
    energy = rng.uniform(10, 100, count)
    yy, xx = np.mgrid[:CELLS, :CELLS] - (CELLS - 1) / 2
    cx, cy = rng.normal(0, 1.2, (2, count, 1, 1))
    width = (1.2 + 0.01 * energy)[:, None, None] * rng.uniform(0.8, 1.2, (count, 1, 1))
    r2 = (xx - cx) ** 2 + 1.3 * (yy - cy) ** 2
    profile = np.exp(-r2 / (2 * width ** 2)) + 0.03 * np.exp(-np.sqrt(r2) / 4)
    profile *= (energy[:, None, None] / profile.sum((1, 2), keepdims=True))
    deposit = rng.gamma(np.maximum(profile * 8, 1e-3)) / 8
    images = np.log1p(deposit).reshape(count, -1).astype(np.float32)
    return images, (energy / 100).astype(np.float32)[:, None]


def mlp(x, sizes, activation):
    for i, size in enumerate(sizes):
        w = tf.get_variable(f"w{i}", [x.shape[1], size],
                            initializer=tf.variance_scaling_initializer(2.0))
        b = tf.get_variable(f"b{i}", [size], initializer=tf.zeros_initializer())
        x = tf.matmul(x, w) + b
        if i < len(sizes) - 1:
            x = activation(x)
    return x


def generator(z, energy):
    with tf.variable_scope("generator", reuse=tf.AUTO_REUSE):
        return tf.nn.softplus(mlp(tf.concat([z, energy], 1), [256, 512, CELLS * CELLS], tf.nn.elu))


def critic(image, energy):
    with tf.variable_scope("critic", reuse=tf.AUTO_REUSE):
        return mlp(tf.concat([image, energy], 1), [640, 640, 320, 1], tf.nn.softplus)


def gradient_penalty(real, fake, energy):
    mix = tf.random_uniform([tf.shape(real)[0], 1])
    between = mix * real + (1 - mix) * fake
    slope = tf.gradients(critic(between, energy), between)[0]
    norm = tf.sqrt(tf.reduce_sum(tf.square(slope), 1) + 1e-12)
    return tf.reduce_mean(tf.square(norm - 1))


def build():
    real = tf.placeholder(tf.float32, [None, CELLS * CELLS], "real")
    energy = tf.placeholder(tf.float32, [None, 1], "energy")
    apply_gp = tf.placeholder(tf.bool, [], "apply_gp")
    z = tf.random_normal([tf.shape(energy)[0], LATENT])
    fake = generator(z, energy)
    fake_score = critic(fake, energy)
    wasserstein = tf.reduce_mean(critic(real, energy)) - tf.reduce_mean(fake_score)

    def penalised():
        return GP_EVERY * GP_WEIGHT * gradient_penalty(real, fake, energy) - wasserstein

    critic_loss = tf.cond(apply_gp, penalised, lambda: -wasserstein)
    gen_loss = -tf.reduce_mean(fake_score)

    critic_vars = tf.trainable_variables("critic")
    gen_vars = tf.trainable_variables("generator")
    train_critic = tf.train.AdamOptimizer(2e-4, 0.0, 0.9).minimize(critic_loss, var_list=critic_vars)
    train_gen = tf.train.AdamOptimizer(1e-4, 0.0, 0.9).minimize(gen_loss, var_list=gen_vars)
    return real, energy, apply_gp, wasserstein, fake, train_critic, train_gen


def main():
    tf.set_random_seed(0)
    images, energies = make_showers()
    rng = np.random.default_rng(1)
    real, energy, apply_gp, wasserstein, fake, train_critic, train_gen = build()
    critic_updates = 0
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        start = time.time()
        for step in range(1, STEPS + 1):
            for _ in range(CRITIC_ITERS):
                pick = rng.integers(len(images), size=BATCH)
                feed = {real: images[pick], energy: energies[pick],
                        apply_gp: critic_updates % GP_EVERY == 0}
                _, distance = sess.run([train_critic, wasserstein], feed)
                critic_updates += 1
            pick = rng.integers(len(images), size=BATCH)
            sess.run(train_gen, {energy: energies[pick]})
            if step % 50 == 0:
                sample = sess.run(fake, {energy: energies[:200]})
                total = np.expm1(sample).sum(1).mean()
                print(f"step {step:4d}  W {distance:.3f}  mean energy {total:.1f} GeV  "
                      f"{(time.time() - start) / step * 1e3:.1f} ms/step", flush=True)


if __name__ == "__main__":
    main()

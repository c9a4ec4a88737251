"""Small convolutional GAN on synthetic 28x28 glyphs (graph mode)."""
import os
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()

BATCH, Z_DIM, STEPS, LR, SEED = 64, 64, 350, 2e-4, 4


def make_glyphs(n=3000, seed=SEED):
    rng = np.random.default_rng(seed)
    yy, xx = np.mgrid[0:28, 0:28].astype(np.float32)
    cx, cy = rng.uniform(9, 19, (2, n, 1, 1)).astype(np.float32)
    r = rng.uniform(4, 8, (n, 1, 1)).astype(np.float32)
    dist = np.sqrt((xx - cx) ** 2 + (yy - cy) ** 2)
    ring = np.exp(-((dist - r) ** 2) / 3.0)
    bar = np.exp(-((xx - cx) ** 2) / 2.0) * (np.abs(yy - cy) < r)
    pick = rng.integers(0, 2, (n, 1, 1))
    image = np.where(pick == 1, ring, bar)
    return (2 * image - 1)[..., None].astype(np.float32)


def weight(name, shape, std=0.05):
    return tf.get_variable(name, shape, initializer=tf.random_normal_initializer(stddev=std, seed=SEED))


def bias(name, n):
    return tf.get_variable(name, [n], initializer=tf.zeros_initializer())


def generator(z):
    with tf.variable_scope("generator", reuse=tf.AUTO_REUSE):
        h = tf.nn.relu(tf.matmul(z, weight("w0", [Z_DIM, 7 * 7 * 48])) + bias("b0", 7 * 7 * 48))
        h = tf.reshape(h, [-1, 7, 7, 48])
        h = tf.nn.conv2d_transpose(h, weight("w1", [4, 4, 24, 48]), [BATCH, 14, 14, 24], [1, 2, 2, 1], "SAME")
        h = tf.nn.relu(h + bias("b1", 24))
        h = tf.nn.conv2d_transpose(h, weight("w2", [4, 4, 1, 24]), [BATCH, 28, 28, 1], [1, 2, 2, 1], "SAME")
        return tf.tanh(h + bias("b2", 1))


def discriminator(x):
    with tf.variable_scope("discriminator", reuse=tf.AUTO_REUSE):
        h = tf.nn.conv2d(x, weight("w0", [4, 4, 1, 24]), [1, 2, 2, 1], "SAME")
        h = tf.nn.leaky_relu(h + bias("b0", 24))
        h = tf.nn.conv2d(h, weight("w1", [4, 4, 24, 48]), [1, 2, 2, 1], "SAME")
        h = tf.nn.leaky_relu(h + bias("b1", 48))
        h = tf.reshape(h, [-1, 7 * 7 * 48])
        return tf.matmul(h, weight("w2", [7 * 7 * 48, 1])) + bias("b2", 1)


def bce(logits, target):
    labels = tf.fill(tf.shape(logits), target)
    return tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=logits))


def build():
    real = tf.placeholder(tf.float32, [BATCH, 28, 28, 1])
    z = tf.placeholder(tf.float32, [BATCH, Z_DIM])
    fake = generator(z)
    real_logit, fake_logit = discriminator(real), discriminator(fake)
    d_loss = bce(real_logit, 0.9) + bce(fake_logit, 0.0)
    g_loss = bce(fake_logit, 1.0)
    d_vars = tf.trainable_variables("discriminator")
    g_vars = tf.trainable_variables("generator")
    d_train = tf.train.AdamOptimizer(LR, beta1=0.5).minimize(d_loss, var_list=d_vars)
    g_train = tf.train.AdamOptimizer(LR, beta1=0.5).minimize(g_loss, var_list=g_vars)
    return real, z, d_loss, g_loss, d_train, g_train


def main():
    tf.set_random_seed(SEED)
    images = make_glyphs()
    rng = np.random.default_rng(SEED + 1)
    real, z, d_loss, g_loss, d_train, g_train = build()
    history = []
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        start = time.time()
        for step in range(STEPS):
            batch = images[rng.integers(0, len(images), BATCH)]
            feed = {real: batch, z: rng.standard_normal((BATCH, Z_DIM)).astype(np.float32)}
            d_value, _ = sess.run([d_loss, d_train], feed_dict=feed)
            g_value, _ = sess.run([g_loss, g_train], feed_dict=feed)
            history.append((d_value, g_value))
            if step % 25 == 0 or step == STEPS - 1:
                print(f"step {step:4d} d_loss {d_value:.4f} g_loss {g_value:.4f} "
                      f"time {time.time() - start:.1f}s", flush=True)
    tail = np.mean(history[-50:], axis=0)
    print(f"mean of last 50: d {tail[0]:.4f} g {tail[1]:.4f}")


if __name__ == "__main__":
    main()

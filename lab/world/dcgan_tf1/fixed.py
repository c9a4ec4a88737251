"""DCGAN on synthetic 28x28 digits-like blobs, TensorFlow 1 graph/session style."""
import argparse
import time

import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()

flags = argparse.ArgumentParser()
flags.add_argument("--iterations", type=int, default=1200)
flags.add_argument("--batch_size", type=int, default=32)
flags.add_argument("--z_dim", type=int, default=64)
flags.add_argument("--learning_rate", type=float, default=2e-4)
flags.add_argument("--beta1", type=float, default=0.5)
flags.add_argument("--df", type=int, default=24)
flags.add_argument("--gf", type=int, default=24)
FLAGS = flags.parse_args()


def conv2d(x, out, name, stride=2):
    with tf.variable_scope(name):
        w = tf.get_variable("w", [5, 5, x.shape[-1], out], initializer=tf.truncated_normal_initializer(stddev=0.02))
        b = tf.get_variable("b", [out], initializer=tf.zeros_initializer())
        return tf.nn.conv2d(x, w, [1, stride, stride, 1], "SAME") + b


def deconv2d(x, out_shape, name):
    with tf.variable_scope(name):
        w = tf.get_variable("w", [5, 5, out_shape[-1], x.shape[-1]],
                            initializer=tf.random_normal_initializer(stddev=0.02))
        b = tf.get_variable("b", [out_shape[-1]], initializer=tf.zeros_initializer())
        return tf.nn.conv2d_transpose(x, w, out_shape, [1, 2, 2, 1]) + b


def linear(x, out, name):
    with tf.variable_scope(name):
        w = tf.get_variable("w", [x.shape[-1], out], initializer=tf.random_normal_initializer(stddev=0.02))
        b = tf.get_variable("b", [out], initializer=tf.zeros_initializer())
        return tf.matmul(x, w) + b


def generator(z):
    n = FLAGS.batch_size
    with tf.variable_scope("generator"):
        h = tf.nn.relu(tf.reshape(linear(z, 7 * 7 * 2 * FLAGS.gf, "h0"), [n, 7, 7, 2 * FLAGS.gf]))
        h = tf.nn.relu(deconv2d(h, [n, 14, 14, FLAGS.gf], "h1"))
        return tf.nn.tanh(deconv2d(h, [n, 28, 28, 1], "h2"))


def discriminator(x, reuse=False):
    with tf.variable_scope("discriminator", reuse=reuse):
        h = tf.nn.leaky_relu(conv2d(x, FLAGS.df, "h0"))
        h = tf.nn.leaky_relu(conv2d(h, 2 * FLAGS.df, "h1"))
        h = tf.reshape(h, [FLAGS.batch_size, 7 * 7 * 2 * FLAGS.df])
        return linear(h, 1, "h2")


def make_images(n, seed=0):
    rng = np.random.RandomState(seed)
    yy, xx = np.mgrid[0:28, 0:28]
    imgs = np.zeros((n, 28, 28), np.float32)
    for _ in range(3):
        cy, cx = rng.uniform(7, 21, (2, n, 1, 1))
        r = rng.uniform(2.0, 5.0, (n, 1, 1))
        imgs = np.maximum(imgs, np.exp(-((yy - cy) ** 2 + (xx - cx) ** 2) / r ** 2))
    return (imgs * 2 - 1).astype(np.float32)[..., None]


def xent(logits, value):
    labels = tf.ones_like(logits) * value
    return tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(logits=logits, labels=labels))


def train():
    tf.set_random_seed(0)
    images = tf.placeholder(tf.float32, [FLAGS.batch_size, 28, 28, 1], name="images")
    z = tf.placeholder(tf.float32, [FLAGS.batch_size, FLAGS.z_dim], name="z")
    fake = generator(z)
    logits_real = discriminator(images)
    logits_fake = discriminator(fake, reuse=True)
    d_loss_real = xent(logits_real, 0.9)
    d_loss_fake = xent(logits_fake, 0.0)
    d_loss = d_loss_real + d_loss_fake
    g_loss = xent(logits_fake, 1.0)
    d_vars = [v for v in tf.trainable_variables() if v.name.startswith("discriminator")]
    g_vars = [v for v in tf.trainable_variables() if v.name.startswith("generator")]
    d_optim = tf.train.AdamOptimizer(FLAGS.learning_rate, FLAGS.beta1).minimize(d_loss, var_list=d_vars)
    g_optim = tf.train.AdamOptimizer(FLAGS.learning_rate, FLAGS.beta1).minimize(g_loss, var_list=g_vars)

    data = make_images(4000)
    rng = np.random.RandomState(1)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        start = time.time()
        for it in range(1, FLAGS.iterations + 1):
            batch = data[rng.randint(0, len(data), FLAGS.batch_size)]
            batch_z = rng.uniform(-1, 1, (FLAGS.batch_size, FLAGS.z_dim)).astype(np.float32)

            _, err_d_fake, err_d_real = sess.run([d_optim, d_loss_fake, d_loss_real],
                                                 feed_dict={images: batch, z: batch_z})
            _, err_g = sess.run([g_optim, g_loss], feed_dict={z: batch_z})

            if it % 20 == 0:
                print("step %d time: %.1f d_loss: %.4f g_loss: %.4f"
                      % (it, time.time() - start, err_d_fake + err_d_real, err_g), flush=True)


if __name__ == "__main__":
    train()

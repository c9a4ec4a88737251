"""Glyph classification with a plain convnet, TF1 graph and session."""
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()

STEPS = int(os.environ.get("STEPS", "800"))
SIDE, N_CLASSES, BATCH = 24, 10, 64


def make_glyphs(n, seed):
    proto = np.random.default_rng(9).random((N_CLASSES, 6, 6)) > 0.5
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, N_CLASSES, n)
    images = np.zeros((n, SIDE, SIDE, 1), np.float32)
    for i, c in enumerate(labels):
        big = np.kron(proto[c], np.ones((3, 3), np.float32))
        dy, dx = rng.integers(0, SIDE - 18, 2)
        images[i, dy:dy + 18, dx:dx + 18, 0] = big
    images += 0.6 * rng.standard_normal(images.shape).astype(np.float32)
    return images, labels.astype(np.int32)


def conv(x, cout, name, stride=1):
    with tf.variable_scope(name):
        cin = int(x.shape[-1])
        w = tf.get_variable("w", [3, 3, cin, cout], initializer=tf.variance_scaling_initializer(2.0))
        b = tf.get_variable("b", [cout], initializer=tf.zeros_initializer())
        return tf.nn.relu(tf.nn.conv2d(x, w, [1, stride, stride, 1], "SAME") + b)


def dense(x, cout, name):
    with tf.variable_scope(name):
        cin = int(x.shape[-1])
        w = tf.get_variable("w", [cin, cout], initializer=tf.glorot_uniform_initializer())
        b = tf.get_variable("b", [cout], initializer=tf.zeros_initializer())
        return tf.matmul(x, w) + b


def build_graph():
    images = tf.placeholder(tf.float32, [None, SIDE, SIDE, 1], "images")
    labels = tf.placeholder(tf.int32, [None], "labels")
    h = conv(images, 16, "conv1")
    h = conv(h, 24, "conv2", 2)
    h = conv(h, 32, "conv3", 2)
    h = tf.reshape(h, [-1, 6 * 6 * 32])
    h = tf.nn.relu(dense(h, 64, "fc1"))
    logits = dense(h, N_CLASSES, "fc2")
    xent = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits))
    l2 = tf.add_n([tf.nn.l2_loss(v) for v in tf.trainable_variables() if v.name.endswith("w:0")])
    loss = xent + 1e-4 * l2
    hits = tf.equal(tf.argmax(logits, 1, output_type=tf.int32), labels)
    accuracy = tf.reduce_mean(tf.cast(hits, tf.float32))
    opt = tf.train.MomentumOptimizer(0.01, 0.9)
    grads_and_vars = opt.compute_gradients(loss)
    norm = tf.global_norm([g for g, _ in grads_and_vars])
    return images, labels, loss, accuracy, norm, opt.apply_gradients(grads_and_vars)


def main():
    tf.set_random_seed(0)
    x, y = make_glyphs(5000, 1)
    xv, yv = make_glyphs(512, 2)
    rng = np.random.default_rng(3)
    images, labels, loss, accuracy, norm, train_op = build_graph()

    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        mean_loss, mean_acc, mean_norm = 0.0, 0.0, 0.0
        for step in range(1, STEPS + 1):
            rows = rng.integers(0, len(x), BATCH)
            feed = {images: x[rows], labels: y[rows]}
            _, loss_v, acc_v, norm_v = sess.run([train_op, loss, accuracy, norm], feed_dict=feed)
            mean_loss += (loss_v - mean_loss) * 0.05
            mean_acc += (acc_v - mean_acc) * 0.05
            mean_norm += (norm_v - mean_norm) * 0.05
            if step % 50 == 0 or step == STEPS:
                print(f"step {step} loss {mean_loss:.4f} acc {mean_acc:.3f} grad {mean_norm:.3f}", flush=True)
            if step % 200 == 0:
                print(f"  valid acc {sess.run(accuracy, {images: xv, labels: yv}):.3f}")


if __name__ == "__main__":
    main()

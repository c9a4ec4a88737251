"""LeNet-like convnet on synthetic digits, TensorFlow 1 sessions, dataset held in
the graph's input pipeline (initializable iterator, fed once)."""
import time

import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()

N, BATCH, STEPS, CLASSES = 6000, 128, 600, 10
LOG_EVERY = 100


def make_digits(seed=0):
    """Each class is a fixed random 7x7 glyph, shifted and blurred into 28x28."""
    rng = np.random.RandomState(seed)
    glyphs = np.kron(rng.rand(CLASSES, 7, 7) > 0.5, np.ones((1, 3, 3))).astype(np.float32)
    labels = rng.randint(0, CLASSES, N).astype(np.int32)
    shifts = rng.randint(0, 8, (N, 2))
    x = np.zeros((N, 28, 28), np.float32)
    for i, (y, (a, b)) in enumerate(zip(labels, shifts)):
        x[i, a:a + 21, b:b + 21] = glyphs[y]
    x += 0.3 * rng.randn(N, 28, 28).astype(np.float32)
    return x[..., None], labels


def conv(x, cout, name):
    with tf.variable_scope(name):
        w = tf.get_variable("w", [5, 5, x.shape[-1], cout], initializer=tf.initializers.he_normal())
        b = tf.get_variable("b", [cout], initializer=tf.zeros_initializer())
        return tf.nn.max_pool2d(tf.nn.relu(tf.nn.conv2d(x, w, 1, "SAME") + b), 2, 2, "SAME")


def fc(x, nout, name):
    with tf.variable_scope(name):
        w = tf.get_variable("w", [x.shape[-1], nout], initializer=tf.initializers.he_normal())
        b = tf.get_variable("b", [nout], initializer=tf.zeros_initializer())
        return tf.matmul(x, w) + b


def main():
    images, labels = make_digits()
    tf.set_random_seed(0)

    images_ph = tf.placeholder(tf.float32, images.shape)
    labels_ph = tf.placeholder(tf.int32, labels.shape)
    dataset = (tf.data.Dataset.from_tensor_slices((images_ph, labels_ph))
               .shuffle(N).repeat().batch(BATCH, drop_remainder=True).prefetch(2))
    iterator = tf.data.make_initializable_iterator(dataset)
    x, y = iterator.get_next()

    h = conv(x, 16, "conv1")
    h = conv(h, 32, "conv2")
    h = tf.reshape(h, [BATCH, 7 * 7 * 32])
    h = tf.nn.relu(fc(h, 128, "fc1"))
    logits = fc(h, CLASSES, "fc2")
    loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits))
    accuracy = tf.reduce_mean(tf.cast(tf.equal(tf.argmax(logits, 1, output_type=tf.int32), y), tf.float32))
    global_step = tf.train.get_or_create_global_step()
    lr = tf.train.cosine_decay(2e-3, global_step, STEPS)
    train_op = tf.train.AdamOptimizer(lr).minimize(loss, global_step=global_step)
    init = tf.global_variables_initializer()
    tf.get_default_graph().finalize()

    times = []
    with tf.Session() as sess:
        sess.run(init)
        sess.run(iterator.initializer, {images_ph: images, labels_ph: labels})
        for step in range(1, STEPS + 1):
            t0 = time.perf_counter()
            if step % LOG_EVERY == 0:
                _, l, a = sess.run([train_op, loss, accuracy])
                print("step %d  loss %.4f  accuracy %.3f" % (step, l, a))
            else:
                sess.run(train_op)
            times.append(time.perf_counter() - t0)
    print("ms per step: %.2f" % (np.median(times[10:]) * 1e3))


if __name__ == "__main__":
    main()

"""Semi-supervised leaf-shape classifier: a student follows an averaged teacher."""
import time

import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_eager_execution()

SIZE = 24
CLASSES = 5
LABELLED = 8
UNLABELLED = 16
STEPS = 600
KEEP = 0.99


def draw_leaves(n, rng):
    label = rng.randint(0, CLASSES, n)
    grid = np.linspace(-1.2, 1.2, SIZE)
    xx, yy = np.meshgrid(grid, grid)
    angle = np.arctan2(yy, xx)[None] + rng.uniform(0, 6.28, (n, 1, 1))
    radius = np.hypot(xx, yy)[None]
    lobes = (label + 2)[:, None, None]
    edge = rng.uniform(0.6, 0.9, (n, 1, 1)) * (1 + 0.25 * np.cos(lobes * angle))
    img = (radius < edge) + rng.normal(0, 0.3, (n, SIZE, SIZE))
    return img[..., None].astype(np.float32), label.astype(np.int32)


def conv(x, name, filters):
    with tf.variable_scope(name):
        w = tf.get_variable("w", [3, 3, int(x.shape[-1]), filters],
                            initializer=tf.glorot_uniform_initializer())
        b = tf.get_variable("b", [filters], initializer=tf.zeros_initializer())
        return tf.nn.relu(tf.nn.conv2d(x, w, strides=1, padding="SAME") + b)


def dense(x, name, units):
    with tf.variable_scope(name):
        w = tf.get_variable("w", [int(x.shape[-1]), units], initializer=tf.glorot_uniform_initializer())
        b = tf.get_variable("b", [units], initializer=tf.zeros_initializer())
        return tf.matmul(x, w) + b


def network(x, scope):
    with tf.variable_scope(scope):
        for k, filters in enumerate((12, 24)):
            x = conv(x, "a%d" % k, filters)
            x = conv(x, "b%d" % k, filters)
            x = tf.nn.max_pool2d(x, 2, 2, "VALID")
        x = tf.reshape(x, [-1, SIZE // 4 * SIZE // 4 * 24])
        x = tf.nn.relu(dense(x, "hidden", 512))
        return dense(x, "logits", CLASSES)


class MeanTeacher:
    def __init__(self):
        tf.set_random_seed(17)
        self.images = tf.placeholder(tf.float32, [None, SIZE, SIZE, 1])
        self.labels = tf.placeholder(tf.int32, [LABELLED])
        student = network(self.images, "student")
        teacher = tf.stop_gradient(network(self.images, "teacher"))
        supervised = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(
            labels=self.labels, logits=student[:LABELLED]))
        gap = tf.reduce_mean(tf.square(tf.nn.softmax(student) - tf.nn.softmax(teacher)))
        self.loss = supervised + 3.0 * gap
        self.guess = tf.argmax(teacher, 1, output_type=tf.int32)
        self.student_vars = tf.trainable_variables("student")
        self.teacher_vars = tf.trainable_variables("teacher")
        self.train = tf.train.MomentumOptimizer(0.02, 0.9).minimize(
            self.loss, var_list=self.student_vars)
        self.sess = tf.Session()
        self.sess.run(tf.global_variables_initializer())

    def follow(self):
        for t, s in zip(self.teacher_vars, self.student_vars):
            mixed = KEEP * self.sess.run(t) + (1 - KEEP) * self.sess.run(s)
            t.load(mixed, self.sess)

    def step(self, images, labels):
        loss, _ = self.sess.run([self.loss, self.train], {self.images: images, self.labels: labels})
        self.follow()
        return loss

    def accuracy(self, images, labels):
        return float((self.sess.run(self.guess, {self.images: images}) == labels).mean())


def main():
    rng = np.random.RandomState(17)
    lab_x, lab_y = draw_leaves(400, rng)
    unl_x, _ = draw_leaves(2000, rng)
    test_x, test_y = draw_leaves(200, rng)
    model = MeanTeacher()
    start = time.time()
    for step in range(1, STEPS + 1):
        i = rng.randint(0, len(lab_x), LABELLED)
        j = rng.randint(0, len(unl_x), UNLABELLED)
        loss = model.step(np.concatenate([lab_x[i], unl_x[j]]), lab_y[i])
        if step % 50 == 0:
            print("step %4d loss %.4f teacher %.3f time %.2fs"
                  % (step, loss, model.accuracy(test_x, test_y), time.time() - start), flush=True)


if __name__ == "__main__":
    main()

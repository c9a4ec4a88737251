"""Three runs per step: the update, the summary, a metric; a checkpoint every tenth step."""

import tempfile

import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()
tf.set_random_seed(6)
folder = tempfile.mkdtemp()
generator = np.random.default_rng(6)

x = tf.placeholder(tf.float32, [None, 200])
y = tf.placeholder(tf.int64, [None])
w1 = tf.get_variable("w1", [200, 800])
w2 = tf.get_variable("w2", [800, 5])
logits = tf.matmul(tf.nn.relu(tf.matmul(x, w1)), w2)
loss = tf.losses.sparse_softmax_cross_entropy(y, logits)
accuracy, update_accuracy = tf.metrics.accuracy(y, tf.argmax(logits, 1))
train_op = tf.train.AdamOptimizer().minimize(loss)
tf.summary.scalar("loss", loss)
merged = tf.summary.merge_all()
saver = tf.train.Saver()

with tf.Session() as session:
    session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
    writer = tf.summary.FileWriter(folder, session.graph)
    for step in range(40):
        inputs = generator.random((96, 200), dtype=np.float32)
        feed = {x: inputs, y: inputs.argmax(1) % 5}
        session.run(train_op, feed)
        writer.add_summary(session.run(merged, feed), step)
        measured = session.run(update_accuracy, feed)
        if step % 10 == 9:
            saver.save(session, f"{folder}/model", global_step=step)
            print(step, repr(measured))
    writer.close()
    print("accuracy", session.run(accuracy), "loss", session.run(loss, feed))

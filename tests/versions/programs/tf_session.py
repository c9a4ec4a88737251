"""A TensorFlow 1 loop of a session with an input queue."""

import tensorflow.compat.v1 as tf

STEPS = 60


def main():
    tf.disable_eager_execution()
    source = tf.random_normal((1024,), seed=1)
    queue = tf.FIFOQueue(32, [tf.float32], shapes=[(1024,)])
    queue.size()
    runner = tf.train.QueueRunner(queue, [queue.enqueue(source)])
    tf.train.add_queue_runner(runner)
    weights = tf.Variable(tf.random_normal((1024, 1024), stddev=0.01, seed=2))
    inputs = tf.reshape(queue.dequeue_many(8), (8, 1024))
    loss = tf.reduce_mean(tf.square(tf.matmul(inputs, weights)))
    train = tf.train.GradientDescentOptimizer(0.01).minimize(loss)
    coordinator = tf.train.Coordinator()
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        threads = tf.train.start_queue_runners(session, coordinator)
        for _ in range(STEPS):
            _, value = session.run([train, loss])
        coordinator.request_stop()
        session.run(queue.close(cancel_pending_enqueues=True))
        coordinator.join(threads)
    print(value)


if __name__ == "__main__":
    main()

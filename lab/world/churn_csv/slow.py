"""Customer churn model fed from a CSV file with tf.data (graph mode)."""
import os
import tempfile
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()

ROWS, BATCH, STEPS, LR, SEED = 24000, 256, 500, 1e-3, 8
NUMERIC = [f"num_{i:02d}" for i in range(12)]
CATEGORIES = {"region": 12, "plan": 6, "channel": 5, "device": 20}


def write_csv(path):
    rng = np.random.default_rng(SEED)
    num = rng.gamma(2.0, 10.0, size=(ROWS, len(NUMERIC)))
    cats = {k: rng.integers(0, n, ROWS) for k, n in CATEGORIES.items()}
    score = 0.03 * (num[:, 0] - num[:, 1]) + 0.4 * np.sin(num[:, 2] / 7) + 0.5 * (cats["plan"] == 3) \
        - 0.6 * (cats["region"] < 3)
    label = (rng.random(ROWS) < 1 / (1 + np.exp(-score))).astype(int)
    with open(path, "w") as f:
        f.write(",".join(NUMERIC + list(CATEGORIES) + ["churn"]) + "\n")
        for i in range(ROWS):
            row = [f"{v:.4f}" for v in num[i]]
            row += [f"{k}_{cats[k][i]}" for k in CATEGORIES] + [str(label[i])]
            f.write(",".join(row) + "\n")


def parse(line):
    defaults = [[0.0]] * len(NUMERIC) + [[""]] * len(CATEGORIES) + [[0]]
    columns = tf.io.decode_csv(line, record_defaults=defaults)
    numeric = tf.log1p(tf.stack(columns[:len(NUMERIC)], axis=-1))
    features = {"numeric": numeric}
    for name, col in zip(CATEGORIES, columns[len(NUMERIC):-1]):
        features[name] = tf.strings.to_hash_bucket_fast(col, 4 * CATEGORIES[name])
    return features, tf.cast(columns[-1], tf.float32)


def input_fn(path):
    ds = tf.data.TextLineDataset(path).skip(1)
    ds = ds.shuffle(4000, seed=SEED).repeat()
    ds = ds.map(parse).batch(BATCH)
    return ds.prefetch(1)


def dense(x, units, name, activation=None):
    with tf.variable_scope(name):
        w = tf.get_variable("kernel", [x.shape[-1], units],
                            initializer=tf.glorot_uniform_initializer(seed=SEED))
        b = tf.get_variable("bias", [units], initializer=tf.zeros_initializer())
        y = tf.matmul(x, w) + b
        return activation(y) if activation else y


def model_fn(features, labels):
    parts = [features["numeric"] - 2.8]
    for name, n in CATEGORIES.items():
        table = tf.get_variable(f"emb_{name}", [4 * n, 8],
                                initializer=tf.random_normal_initializer(stddev=0.05, seed=SEED))
        parts.append(tf.nn.embedding_lookup(table, features[name]))
    x = tf.concat(parts, axis=1)
    x.set_shape([None, len(NUMERIC) + 8 * len(CATEGORIES)])
    h = dense(x, 512, "d1", tf.nn.relu)
    h = dense(h, 512, "d2", tf.nn.relu)
    h = dense(h, 256, "d3", tf.nn.relu)
    logit = tf.squeeze(dense(h, 1, "out"), axis=1)
    loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=logit))
    train = tf.train.AdamOptimizer(LR).minimize(loss)
    return loss, train


def main():
    tf.set_random_seed(SEED)
    with tempfile.TemporaryDirectory() as root:
        path = os.path.join(root, "churn.csv")
        write_csv(path)
        features, labels = tf.data.make_one_shot_iterator(input_fn(path)).get_next()
        loss, train = model_fn(features, labels)
        with tf.Session() as sess:
            sess.run(tf.global_variables_initializer())
            start = time.time()
            for step in range(STEPS):
                value, _ = sess.run([loss, train])
                if step % 50 == 0 or step == STEPS - 1:
                    print(f"step {step:4d} loss {value:.4f} time {time.time() - start:.1f}s", flush=True)


if __name__ == "__main__":
    main()

"""A cluster of TensorFlow server processes on this machine's loopback interface.

One `ps` task hosts the parameters, the `worker` tasks stand for accelerators: each runs one op at
a time in a process of its own, and tensors between them are real copies.
"""

import atexit
import os
import random
import socket
import subprocess
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")


def is_free(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) != 0


def free_ports(count):
    """Ports that no outgoing connection takes while the servers still import TensorFlow."""
    below = range(20_000, 32_000)  # what Linux gives to connections begins at 32,768
    return list(filter(is_free, random.SystemRandom().sample(below, 20)))[:count]


def start(workers):
    """Start all tasks; returns the session target. They end with this process, however it ends."""
    hosts = [f"127.0.0.1:{port}" for port in free_ports(1 + workers)]
    servers = subprocess.Popen(
        [sys.executable, __file__, *hosts],
        stdin=subprocess.PIPE,  # stays open as long as we live: see `serve`
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    atexit.register(servers.kill)
    return f"grpc://{hosts[0]}"


def serve_all(hosts):
    """Be the parameter host, and a worker in each of several forks, which import nothing again."""
    import tensorflow.compat.v1 as tf

    spec = {"ps": hosts[:1], "worker": hosts[1:]}
    for index in range(len(hosts) - 1):
        if not os.fork():
            serve(tf, spec, "worker", index)
    serve(tf, spec, "ps", 0)


def serve(tf, spec, job, index):
    """Be one task until the process that has started all of them goes away."""
    one_op_at_a_time = tf.ConfigProto(
        intra_op_parallelism_threads=1, inter_op_parallelism_threads=1
    )
    server = tf.train.Server(spec, job_name=job, task_index=index, config=one_op_at_a_time)
    sys.stdin.read()  # end of file: it has ended
    del server
    os._exit(0)


if __name__ == "__main__":
    serve_all(sys.argv[1:])

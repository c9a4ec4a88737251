"""Generator of logs of NCCL, as NCCL_DEBUG=INFO with the subsystems INIT and COLL writes them."""

COMM_ID = "0x5ae77eb5ea4ec1ee"


def head(rank, host="node"):
    """The beginning of a line of a rank; each process has one GPU."""
    return f"{host}:{100 + rank}:{200 + rank} [{rank}] NCCL INFO "


def made(rank, size=2, comm_id=COMM_ID, comm="0x55a0"):
    """The line about the creation of a communicator."""
    about = f"comm {comm}{rank} rank {rank} nranks {size} cudaDev {rank} nvmlDev {rank} busId 4f000"
    return head(rank) + about + (f" commId {comm_id}" if comm_id else "") + " - Init COMPLETE\n"


def call(rank, number, operation="AllReduce", *, count=64, kind=7, size=2, comm="0x55a0"):
    """The line about a call."""
    buffers = "sendbuff 0x7f00 recvbuff 0x7f00"
    where = f"comm {comm}{rank} [nranks={size}] stream 0x10"
    about = f"{operation}: opCount {number:x} {buffers} count {count} datatype {kind} op 0 root 0"
    return f"{head(rank)}{about} {where}\n"


def log(*lines):
    """A file of some lines, with other output of the program."""
    start = "Starting training\n" + head(0) + "Bootstrap : Using eth0:10.0.0.1<0>\n"
    return (start + "".join(lines)).encode()


def hung(*ranks, of=4):
    """The calls of some ranks; rank 1 has not called the 16th all-reduce."""
    lines = [made(rank, of) for rank in ranks]
    for rank in ranks:
        lines += [call(rank, n, size=of) for n in range(15 if rank == 1 else 16)]
    return log(*lines)


def seeds():
    """Valid files."""
    return [{"rank0.log": hung(0, of=2), "rank1.log": hung(1, of=2)}, {"out.txt": hung(0, 1, 2, 3)}]


EXTREMES = {
    "calls": lambda size: log(made(0), *(call(0, n) for n in range(size // 150))),
    "communicators": lambda size: log(
        *(made(0, comm=f"0x{n:x}f") for n in range(size // 150)), call(0, 1)
    ),
    "ranks": lambda size: log(*(made(n, 1 << 20) + call(n, 1) for n in range(size // 300))),
}
"""Files with much of one thing, of about `size` bytes."""

"""Available memory according to the kernel."""

from __future__ import annotations

import pytest

from stepwhy.read.inputs.memory import available_bytes, data_bytes

MIB = 1 << 20
MACHINE = {"proc/meminfo": f"MemTotal: 99 kB\nMemAvailable: {8 * 1024} kB\n"}  # 8 MiB


def system(folder, files):
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def version_2(group, limit, usage, cached=0):
    return {
        f"sys/fs/cgroup/{group}memory.max": f"{limit}\n",
        f"sys/fs/cgroup/{group}memory.current": f"{usage}\n",
        f"sys/fs/cgroup/{group}memory.stat": f"anon 5\ninactive_file {cached}\nactive_file 1\n",
    }


def version_1(group, limit, usage, cached=0):
    stat = f"inactive_file 7\ntotal_inactive_file {cached}\n"
    return {
        f"sys/fs/cgroup/memory/{group}memory.limit_in_bytes": f"{limit}\n",
        f"sys/fs/cgroup/memory/{group}memory.usage_in_bytes": f"{usage}\n",
        f"sys/fs/cgroup/memory/{group}memory.stat": stat,
    }


OWN_2 = {"proc/self/cgroup": "0::/jobs/mine\n"}
OWN_1 = {"proc/self/cgroup": "5:cpu:/x\n4:memory:/jobs/mine\n0::/\n"}


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        (MACHINE, 8 * MIB),
        # Its own group: 3 MiB of 5 are used, 1 MiB and a byte of them by the page cache.
        (MACHINE | OWN_2 | version_2("jobs/mine/", 5 * MIB, 3 * MIB, MIB), 3 * MIB + 1),
        # The group around it is tighter.
        (
            MACHINE
            | OWN_2
            | version_2("jobs/mine/", 5 * MIB, 0)
            | version_2("jobs/", 9 * MIB, 7 * MIB),
            2 * MIB + 1,
        ),
        (MACHINE | OWN_2 | version_2("jobs/mine/", "max", 3 * MIB), 8 * MIB),
        # A container sees its group at the mount, under another name.
        (MACHINE | OWN_2 | version_2("", 4 * MIB, MIB), 3 * MIB + 1),
        (MACHINE | OWN_2 | version_2("jobs/mine/", MIB, 3 * MIB), 0),
        (MACHINE | OWN_1 | version_1("jobs/mine/", 5 * MIB, 3 * MIB, MIB), 3 * MIB),
        (MACHINE | OWN_1 | version_1("", 2**63 - 4096, 3 * MIB), 8 * MIB),
        (OWN_2 | version_2("jobs/mine/", 5 * MIB, 3 * MIB), 2 * MIB + 1),
        ({}, None),
        ({"proc/self/cgroup": "0::/../../elsewhere\n"}, None),
    ],
)
def test_the_tightest_limit_counts(tmp_path, files, expected):
    assert available_bytes(system(tmp_path, files)) == expected


def test_available_memory_of_this_machine():
    left = available_bytes()
    assert left is None or left > 0


def test_data_of_the_process_count_towards_its_limit(tmp_path):
    root = system(tmp_path, {"proc/self/status": "VmSize:\t99 kB\nVmData:\t  3 kB\n"})
    assert data_bytes(root) == 3 * 1024


def test_unreported_data_are_an_error(tmp_path):
    with pytest.raises(ValueError, match="does not report"):
        data_bytes(tmp_path)

from __future__ import annotations

import pytest

from sandbox.cgroups import Limits, plan_cgroups

LIMITS = Limits(memory_bytes=1000, pids=50, cpus=2)
VERSION_1_MOUNTS = """\
tmpfs /sys/fs/cgroup tmpfs rw 0 0
cgroup /sys/fs/cgroup/memory cgroup rw,relatime,memory 0 0
cgroup /sys/fs/cgroup/pids cgroup rw,relatime,pids 0 0
cgroup /sys/fs/cgroup/cpu,cpuacct cgroup rw,relatime,cpu,cpuacct 0 0
cgroup2 /sys/fs/cgroup/unified cgroup2 rw,relatime 0 0
"""
VERSION_1_OWN = "4:memory:/service/one\n3:cpu,cpuacct:/\n2:pids:/\n0::/\n"
VERSION_2_MOUNTS = "cgroup2 /sys/fs/cgroup cgroup2 rw,nosuid 0 0\n"


@pytest.mark.parametrize(
    ("mounts", "own", "expected"),
    [
        (
            VERSION_1_MOUNTS,
            VERSION_1_OWN,
            {
                "/sys/fs/cgroup/memory/service/one/m": {"memory.limit_in_bytes": "1000"},
                "/sys/fs/cgroup/pids/m": {"pids.max": "50"},
                "/sys/fs/cgroup/cpu,cpuacct/m": {
                    "cpu.cfs_period_us": "100000",
                    "cpu.cfs_quota_us": "200000",
                },
            },
        ),
        (
            VERSION_2_MOUNTS,
            "0::/user.slice/session\n",
            {
                "/sys/fs/cgroup/m": {
                    "memory.max": "1000",
                    "pids.max": "50",
                    "cpu.max": "200000 100000",
                }
            },
        ),
        ("tmpfs / tmpfs rw 0 0\n", "0::/\n", {}),
    ],
    ids=["version 1, hybrid", "version 2", "none"],
)
def test_a_machines_cgroups_go_below_our_own(
    mounts: str, own: str, expected: dict[str, dict[str, str]]
) -> None:
    planned = plan_cgroups(mounts, own, "m", LIMITS)
    assert {group.path: dict(group.files) for group in planned} == expected

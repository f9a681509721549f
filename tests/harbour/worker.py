"""A worker in a process of its own, to be killed: drives queued runs until there is none."""

from __future__ import annotations

import json
import multiprocessing
import os
import subprocess
import sys
from dataclasses import asdict, dataclass
from multiprocessing.context import ForkServerProcess
from pathlib import Path

from app.settings import load_settings
from app.states import RunState
from app.store import reading, runs
from app.web.logs import configure_logging
from tests.harbour.harbour import CHECKOUT, InProcessQueue, harbour_services
from tests.harbour.stand_in import StandInProvider, hold
from workers.run import take_run
from workers.services import Services, build_services

# It has imported everything once, so that a worker is there at once.
_FORKS = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload([__name__])


@dataclass(frozen=True)
class Orders:
    """`hold_machine`: hang as soon as a machine is there. `full`: give this folder of the state a
    file system of so many KiB (in a mount namespace of the process)."""

    environment: dict[str, str]
    hold_machine: bool = False
    full: tuple[str, int] | None = None


def start(orders: Orders, log: Path) -> ForkServerProcess:
    """Start such a worker; its output goes to `log`."""
    process = _FORKS.Process(target=_work_with_log, args=(orders, log))
    process.start()
    return process


def run_on_full_disk(orders: Orders, log: Path) -> int:
    """Have such a worker do its work; returns its exit status."""
    with log.open("ab") as output:
        done = subprocess.run(
            [
                *("unshare", "--map-root-user", "--mount"),
                *(sys.executable, "-m", __name__, json.dumps(asdict(orders))),
            ],
            cwd=CHECKOUT,
            env={"PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", "LC_ALL": "C.UTF-8"},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            timeout=60,
            check=False,
        )
    return done.returncode


def _work_with_log(orders: Orders, log: Path) -> None:
    with log.open("ab") as output:
        os.dup2(output.fileno(), 1)
        os.dup2(output.fileno(), 2)
    work(orders)


def work(orders: Orders) -> None:
    configure_logging("json")
    settings = load_settings(None, orders.environment)
    if orders.full is not None:
        _make_small(settings.state_dir / orders.full[0], orders.full[1])
    provider = StandInProvider(settings.state_dir, hold if orders.hold_machine else None)
    services = harbour_services(build_services(settings), InProcessQueue(), lambda: provider)
    while _is_queued(services):
        take_run(services, "")


def _make_small(folder: Path, kib: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    argv = ["mount", "-t", "tmpfs", "-o", f"size={kib}k", "none", str(folder)]
    subprocess.run(argv, check=True, env={"PATH": "/usr/bin:/bin:/usr/sbin:/sbin"})


def _is_queued(services: Services) -> bool:
    with reading(services.engine) as session:
        return runs.counts(session)[RunState.QUEUED] > 0


if __name__ == "__main__":
    work(Orders(**json.loads(sys.argv[1])))

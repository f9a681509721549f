"""The gate's figures: a change of ten thousand files, judged from the bundle to the verdict.

The judging runs in a process of its own, so that its memory can be told from the benchmark's:
`python -m cli.bench_gate FOLDER` judges what `measure_gate` prepared there.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from cli.errors import fail
from cli.figures import Figure, middle
from cli.processes import child_environment
from workers.gate import GateRefusal, GateRules, is_refused, judge, quarantine, read_facts
from workers.git import Git
from workers.guest_repo import OUT_REF

if TYPE_CHECKING:
    from cli.bench import Bench

FILES = 10_000
CHANGED = 4_000
ROUNDS = 3
SECONDS_BAR = 5.0
MEMORY_BAR_MIB = 512.0
_AT = "drydock <drydock@localhost> 1750000000 +0000"


def measure_gate(bench: Bench) -> list[Figure]:
    """A change of 10,000 files, new and edited, of twenty lines each: seconds and memory."""
    with tempfile.TemporaryDirectory(prefix="drydock-gate-") as place:
        folder = Path(place)
        prepare(folder)
        told = []
        for number in range(ROUNDS):
            bench.say(f"gate: {number + 1} of {ROUNDS}")
            told.append(_judge_apart(folder))
        plain = _plain_diff(folder)
    seconds = middle(each["seconds"] for each in told)
    memory = max(each["memory_mib"] for each in told)
    words = f"{FILES:,} files; `git diff-tree -p` alone: {plain:.2f} s"
    return [
        Figure("gate_10k_files_s", seconds, "s", words, bar=SECONDS_BAR),
        Figure("gate_10k_files_mib", memory, "MiB", "largest process", bar=MEMORY_BAR_MIB),
    ]


def prepare(folder: Path) -> None:
    """Make a mirror with a base and a bundle with one commit on it, as a machine gives it back."""
    git = Git(home=folder / "home")
    mirror = folder / "mirror.git"
    git.run(["init", "--quiet", "--bare", "--template=", str(mirror)])
    stream = b"".join((*_commit("refs/heads/main", 0), *_commit(OUT_REF, 1)))
    git.run(["fast-import", "--quiet"], git_dir=mirror, stdin=stream)
    base = git.run(["rev-parse", "refs/heads/main"], git_dir=mirror).decode().strip()
    bundle = ["bundle", "create", "--quiet", str(folder / "out.bundle"), f"^{base}", OUT_REF]
    git.run(bundle, git_dir=mirror)


def _commit(ref: str, version: int) -> Iterator[bytes]:
    yield f"commit {ref}\nmark :{version + 1}\ncommitter {_AT}\ndata 6\nChange\n".encode()
    if version:
        yield f"from :{version}\n".encode()
    for number in range(CHANGED if version == 0 else FILES):
        data = _source(number, version)
        path = f"src/part{number % 97}/module{number}.py"
        yield f"M 100644 inline {path}\ndata {len(data)}\n".encode() + data + b"\n"


def _source(number: int, version: int) -> bytes:
    lines = [f"def function_{number}_{line}(value):" for line in range(10)]
    body = [f"    return value * {number + line} + {version * (line % 3)}" for line in range(10)]
    return "\n".join(each for pair in zip(lines, body, strict=True) for each in pair).encode()


def _judge_apart(folder: Path) -> dict[str, float]:
    done = subprocess.run(
        [sys.executable, "-m", "cli.bench_gate", str(folder)],
        env=child_environment(os.environ, {}),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
    )
    if done.returncode != 0:
        raise fail(f"the gate did not judge:\n{done.stderr.decode(errors='replace')[-2000:]}")
    told: dict[str, float] = json.loads(done.stdout)
    return told


def _plain_diff(folder: Path) -> float:
    git = Git(home=folder / "home")
    begun = time.monotonic()
    argv = ["diff-tree", "-r", "-p", "--no-renames", "refs/heads/main", OUT_REF]
    git.run(argv, git_dir=folder / "mirror.git")
    return time.monotonic() - begun


def judge_here(folder: Path) -> dict[str, float]:
    """Judge what `prepare` made; seconds, and the memory of the largest process in MiB."""
    git = Git(home=folder / "home")
    base = git.run(["rev-parse", "refs/heads/main"], git_dir=folder / "mirror.git").decode().strip()
    with tempfile.TemporaryDirectory(dir=folder) as place:
        begun = time.monotonic()
        into = Path(place) / "quarantine.git"
        taken = quarantine(git, folder / "out.bundle", base, folder / "mirror.git", into)
        if isinstance(taken, GateRefusal):
            raise fail(f"the gate refused an honest change: {taken.findings[0].reason}")
        found = judge(read_facts(git, taken), GateRules())
        seconds = time.monotonic() - begun
    if is_refused(found):
        raise fail(f"the gate refused an honest change: {found[0].reason}")
    kinds = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    return {
        "seconds": seconds,
        "memory_mib": max(resource.getrusage(kind).ru_maxrss for kind in kinds) / 1024,
    }


if __name__ == "__main__":
    print(json.dumps(judge_here(Path(sys.argv[1]))))

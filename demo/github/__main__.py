"""`python -m demo.github --root DIR --port N`: the local GitHub as a process of its own.

State lives in memory; a repository `acme/widgets` and a person `alice` are there to start with.
"""

from __future__ import annotations

import argparse
import signal
import sys
from pathlib import Path

from demo.github.server import LocalGitHub


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m demo.github", description=__doc__)
    parser.add_argument("--root", type=Path, required=True, help="where repositories are kept")
    parser.add_argument("--port", type=int, default=0, help="port on 127.0.0.1 (0: any)")
    options = parser.parse_args()
    signals = {signal.SIGINT, signal.SIGTERM}
    signal.pthread_sigmask(signal.SIG_BLOCK, signals)  # threads started below inherit this
    with LocalGitHub(options.root, port=options.port) as gh:
        repo = gh.create_repo("acme", "widgets", {"README.md": "# Widgets\n"})
        repo.grant(gh.create_user("alice"), "admin")
        sys.stdout.write(f"{gh.url}\n")
        sys.stdout.flush()
        signal.sigwait(signals)
    return 0


if __name__ == "__main__":
    sys.exit(main())

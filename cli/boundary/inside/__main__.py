"""Runs the attacks that are named, or all of them, and prints what came of each."""

from __future__ import annotations

# A machine's paths are text here, as in the agent.
# ruff: noqa: PTH123
import json
import sys

from cli.boundary.inside import broker, kernel, leaks, network
from cli.boundary.inside.attempt import ATTACKS, FACTS, Open

# The kernel's come last: what they try may disturb the machine.
ORDER = (network, broker, leaks, kernel)


def all_names() -> list[str]:
    """Return the attacks in the order of their modules, and within one as they are written."""
    return [n for m in ORDER for n, act in ATTACKS.items() if act.__module__ == m.__name__]


def main() -> None:
    """Run the attacks; see the package for what is printed."""
    with open(sys.argv[1], encoding="utf-8") as file:
        FACTS.update(json.load(file))
    for name in sys.argv[2:] or all_names():
        try:
            held, detail = True, ATTACKS[name]()
        except Open as error:
            held, detail = False, str(error)
        except Exception as error:  # noqa: BLE001 -- a broken attack proves nothing
            held, detail = False, f"the attempt itself failed: {type(error).__name__}: {error}"
        sys.stdout.write(json.dumps({"name": name, "held": held, "detail": detail[:300]}) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()

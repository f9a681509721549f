"""Counts of tests from pytest's JUnit XML: how it is asked for, and how it is read.

The report is asked for by `PYTEST_ADDOPTS`, which adds to whatever the command says, and only of
commands that name pytest. What comes back was written in the machine: it is read as hostile, and
a report that cannot be read only means that there are no counts.

Source: https://docs.pytest.org/en/stable/reference/customize.html (addopts, PYTEST_ADDOPTS)
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from xml.parsers import expat

from app.report import TestTally
from sandbox.provider import GuestMisbehaved, Sandbox
from workers.git import printable
from workers.guest_repo import JOB_DIR

MAX_BYTES = 16 * 1024 * 1024
MAX_FAILING = 200
_REPORT = "tests.xml"
_PYTEST = re.compile(r"(?:^|[\s;&|(/])(?:pytest|py\.test)(?=$|[\s;&|)])")
# The command is the script's own name for it ($0), so nothing of it is parsed twice. An earlier
# report is removed, so that it is never taken for this one's.
_SCRIPT = f"""
report="$PWD/../job/{_REPORT}"
rm -f -- "$report"
PYTEST_ADDOPTS="${{PYTEST_ADDOPTS:-}} '--junitxml=$report'"
export PYTEST_ADDOPTS
exec sh -c "$0"
"""


def argv(command: str) -> list[str] | None:
    """Return the command line that runs `command` and leaves a report; None where none would."""
    return ["sh", "-c", _SCRIPT, command] if _PYTEST.search(command) else None


def read_tally(sandbox: Sandbox) -> TestTally | None:
    """Return the counts of the last test run; None when it left no report that can be read."""
    try:
        data = sandbox.read_file(f"{JOB_DIR}/{_REPORT}", max_bytes=MAX_BYTES)
    except (FileNotFoundError, GuestMisbehaved):
        return None
    return parse_tally(data)


def parse_tally(data: bytes) -> TestTally | None:
    """Return the counts in a JUnit report; None for anything else. Total.

    Declarations are refused: an entity may stand for more than memory holds.
    """
    reader = _Reader()
    parser = expat.ParserCreate()
    parser.StartElementHandler = reader.start
    parser.EndElementHandler = reader.end
    parser.StartDoctypeDeclHandler = reader.refuse
    parser.EntityDeclHandler = reader.refuse
    try:
        parser.Parse(data, True)
    except (expat.ExpatError, _Refused, ValueError):
        return None
    return reader.tally()


class _Refused(Exception):
    """The document is not one of pytest's."""


@dataclass
class _Reader:
    cases: int = 0
    failed: int = 0
    skipped: int = 0
    failing: list[str] = field(default_factory=list)
    is_junit: bool = False
    _name: str = ""
    _outcome: str = ""

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        if tag in {"testsuites", "testsuite"}:
            self.is_junit = True
        elif tag == "testcase":
            self._outcome = ""
            owner, name = attributes.get("classname", ""), attributes.get("name", "")
            self._name = f"{owner}::{name}" if owner else name
        elif tag in {"failure", "error", "skipped"} and self._outcome != "failed":
            self._outcome = "skipped" if tag == "skipped" else "failed"

    def end(self, tag: str) -> None:
        if tag != "testcase":
            return
        self.cases += 1
        self.failed += self._outcome == "failed"
        self.skipped += self._outcome == "skipped"
        if self._outcome == "failed" and len(self.failing) < MAX_FAILING:
            self.failing.append(printable(self._name, 200))

    def refuse(self, *_: object) -> None:
        raise _Refused

    def tally(self) -> TestTally | None:
        if not self.is_junit:
            return None
        passed = self.cases - self.failed - self.skipped
        return TestTally(passed, self.failed, self.skipped, tuple(sorted(set(self.failing))))

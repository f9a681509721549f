"""The main job once more in a virtual machine: a kernel of its own, and Aider awake in it."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.store import attempts, reading
from tests.harbour.harbour import Harbour

pytestmark = [pytest.mark.e2e, pytest.mark.machine]


@pytest.mark.timeout(900)
def test_a_label_becomes_a_pull_request_by_the_real_aider_in_a_virtual_machine(
    tmp_path: Path,
) -> None:
    """Where this host has no such machine with Aider awake yet, one is baked first: a minute."""
    with Harbour(tmp_path / "harbour", provider="qemu") as harbour:
        harbour.mona.labels(harbour.issue, "aider")
        harbour.settle(timeout=600)
        run, pull = harbour.run_of(), harbour.pull_of()
        with reading(harbour.engine) as session:
            (attempt,) = attempts.of_run(session, run.id)
    assert "- Machine: `qemu-" in (pull.body or "")
    assert "its tests pass" in harbour.status_of()
    assert attempt.provider.startswith("qemu")

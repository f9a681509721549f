"""How it is found out whether KVM is of use, and for how long that is believed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from sandbox.provider import ProviderFailed
from sandbox.providers.qemu.acceleration import Host, decide, remembered, without_trial

HOST = Host("host", "6.1", "qemu-7.2", can_open=True, has_extensions=True)


class Trial:
    """A trial that counts how often it is made."""

    def __init__(self, error: str = "") -> None:
        self.error = error
        self.times = 0

    def __call__(self) -> None:
        self.times += 1
        if self.error:
            raise ProviderFailed(self.error)


@pytest.mark.parametrize(
    ("setting", "host", "accel", "words"),
    [
        ("tcg", HOST, "tcg", "as configured"),
        ("kvm", replace(HOST, can_open=False), "kvm", "as configured"),
        ("auto", replace(HOST, can_open=False), "tcg", "not for this user"),
        ("auto", replace(HOST, has_extensions=False), "tcg", "neither VMX nor SVM"),
    ],
)
def test_this_much_is_known_without_booting(
    setting: str, host: Host, accel: str, words: str
) -> None:
    verdict = without_trial(setting, host)
    assert verdict is not None
    assert verdict.accel == accel
    assert words in verdict.reason


def test_only_a_boot_tells_otherwise() -> None:
    assert without_trial("auto", HOST) is None


def test_an_agent_that_answers_is_believed(tmp_path: Path) -> None:
    assert decide("auto", HOST, tmp_path, Trial()).accel == "kvm"


def test_a_boot_that_hangs_means_emulation_and_says_why(tmp_path: Path) -> None:
    verdict = decide("auto", HOST, tmp_path, Trial("its agent did not answer within 8 s"))
    assert verdict.accel == "tcg"
    assert "did not answer within 8 s" in verdict.reason


def test_a_verdict_is_remembered_with_its_reason(tmp_path: Path) -> None:
    trial = Trial("no answer")
    first = decide("auto", HOST, tmp_path, trial)
    assert decide("auto", HOST, tmp_path, trial) == first
    assert trial.times == 1


@pytest.mark.parametrize("changed", [{"name": "other"}, {"kernel": "6.2"}, {"program": "8.2"}])
def test_another_host_kernel_or_qemu_is_tried_again(
    tmp_path: Path, changed: dict[str, str]
) -> None:
    decide("auto", HOST, tmp_path, Trial("no answer"))
    trial = Trial()
    assert decide("auto", replace(HOST, **changed), tmp_path, trial).accel == "kvm"  # type: ignore[arg-type]
    assert trial.times == 1


def test_a_broken_memory_is_no_verdict(tmp_path: Path) -> None:
    decide("auto", HOST, tmp_path, Trial())
    [file] = tmp_path.iterdir()
    file.write_text("{")
    assert remembered(HOST, tmp_path) is None

"""The measured rate of the time-stamp counter."""

from __future__ import annotations

import platform

import pytest

from sandbox.providers.qemu.tsc import measure_tsc_khz


@pytest.mark.skipif(platform.machine() != "x86_64", reason="x86 has this counter")
def test_two_measurements_agree() -> None:
    one, two = measure_tsc_khz(0.1), measure_tsc_khz(0.1)
    assert 500_000 < one < 10_000_000
    assert abs(one - two) / one < 0.002

"""The registry of providers, and which one `auto` means."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from sandbox.provider import Provider, ProviderFailed
from sandbox.providers.bubblewrap import BubblewrapProvider
from sandbox.providers.fake import FakeProvider
from sandbox.providers.gvisor import GvisorProvider

AUTO = "auto"
_MAKERS: dict[str, Callable[[Path], Provider]] = {
    "gvisor": GvisorProvider,
    "bubblewrap": BubblewrapProvider,
    "fake": FakeProvider,
}
NAMES = (AUTO, *_MAKERS)
# Strongest first; qemu on KVM goes before gvisor, and on TCG after it. Not bubblewrap: it shares
# the host's kernel, so it is taken only where the operator names it. Never fake.
_AUTO_ORDER = ("gvisor",)


def make_provider(name: str, state_dir: Path) -> Provider:
    """Return the provider of that name. ValueError for an unknown one.

    `auto` tries each that it may take; ProviderFailed, with every reason, when none works.
    """
    if name != AUTO:
        return _make(name, state_dir)
    reasons = []
    for candidate in _AUTO_ORDER:
        provider = _make(candidate, state_dir)
        probe = provider.probe()
        if probe.ok:
            return provider
        reasons.append(f"{candidate}: {probe.reason}")
    raise ProviderFailed("no provider works on this host; " + "; ".join(reasons))


def _make(name: str, state_dir: Path) -> Provider:
    if name not in _MAKERS:
        raise ValueError(f"unknown provider {name!r}: one of {', '.join(NAMES)}")
    return _MAKERS[name](state_dir)

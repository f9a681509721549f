"""Machines with a kernel of their own: QEMU's `microvm`, restored instead of booted.

Without a network card, without vsock; the channel is a virtio-serial port. A template is booted
once, rehearsed and saved; each machine is a clone of that: its memory a private mapping of the
template's, its disk an overlay. With hardware virtualisation (KVM) where a trial shows that it
works, else with QEMU's own emulation (TCG).
"""

from sandbox.providers.qemu.provider import QemuProvider

__all__ = ["QemuProvider"]

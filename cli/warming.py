"""What the first virtual machine of an installation would wait for, done beforehand and told of."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Mapping

from app.settings import Settings, SettingsError
from cli.serve import our_argv
from sandbox.provider import MachineSpec, Template
from sandbox.providers import AUTO, make_provider
from sandbox.providers.qemu import QemuProvider
from sandbox.template.bake import Progress
from workers.services import find_template, probable_machine


def is_virtual(settings: Settings) -> bool:
    """Whether runs get virtual machines here. ProviderFailed when they get none at all."""
    if settings.provider not in (AUTO, QemuProvider.name):
        return False
    made = make_provider(settings.provider, settings.state_dir, settings.qemu_accel)
    return isinstance(made, QemuProvider)


def prepare_machines(
    settings: Settings, progress: Progress, template: Template | None = None
) -> str:
    """Bake the warm machine that runs start from; returns what accelerates it, and why.

    Errors: `ProviderFailed`, and `SettingsError` when no template is baked.
    """
    template = template or find_template(settings)
    provider = QemuProvider(settings.state_dir, settings.qemu_accel, progress)
    return provider.prepare(_machine_of(settings, template)).reason


def prepare_for(environment: Mapping[str, str], template: str, say: Callable[[str], None]) -> bool:
    """The same for an installation with that environment; tells each step. False on failure."""
    argv = our_argv("template", "bake", template, "--qemu", config=None)
    process = subprocess.Popen(
        argv,
        env=dict(environment),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        for line in process.stderr or ():
            say(line.rstrip())
    return process.returncode == 0


def _machine_of(settings: Settings, template: Template) -> MachineSpec:
    """A run's, or the usual one as long as no model says which Aider is to wake up in it."""
    try:
        return probable_machine(settings, template)
    except SettingsError:
        return MachineSpec("bake", template)

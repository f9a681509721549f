"""The `drydock` command. Each subcommand has its own module, imported when it is used."""

from __future__ import annotations

import importlib
import signal
import sys
from importlib.metadata import version

import click

from cli.errors import guarded

COMMANDS: dict[str, tuple[str, str]] = {
    "demo": ("cli.demo", "demo"),
    "try": ("cli.trial", "trial"),
    "up": ("cli.up", "up"),
    "web": ("cli.serve", "web"),
    "worker": ("cli.serve", "worker"),
    "beat": ("cli.serve", "beat"),
    "runs": ("cli.runs", "runs"),
    "reap": ("cli.reap", "reap"),
    "template": ("cli.template", "template"),
    "audit": ("cli.audit", "audit"),
    "policy": ("cli.policy", "policy"),
    "config": ("cli.config", "config"),
    "doctor": ("cli.doctor", "doctor"),
    "bench": ("cli.bench", "bench"),
}


class LazyGroup(click.Group):
    """Imports a subcommand's module only when it is named, so that `--help` is quick."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, name = COMMANDS[cmd_name]
        command: click.Command = getattr(importlib.import_module(module), name)
        return command


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(version("drydock"), prog_name="drydock")
def drydock() -> None:
    """Run Aider on labelled issues, in machines without network or credential.

    Start with `drydock demo`: it needs no account and no key.
    """


def main() -> None:
    """Exit status: 0 done, 1 failed, 2 wrong use, 130 after Ctrl-C, 143 after SIGTERM.

    A server's work is done when it is asked to stop, either way: it ends with 0.
    """
    # An orderly end, so that `with` blocks and children are not left behind.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    sys.exit(guarded(lambda: drydock(standalone_mode=False)))

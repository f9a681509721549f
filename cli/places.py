"""What of this host an installation needs before it starts: its folder, its address."""

from __future__ import annotations

import os
import socket

from app.settings import Settings
from cli.errors import fail


def make_state_dir(settings: Settings) -> None:
    """Make the state directory. ClickException when it cannot be written."""
    path = settings.state_dir
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        why = error.strerror or "cannot be made"
    else:
        why = "" if os.access(path, os.W_OK | os.X_OK) else "not yours to write"
    if why:
        raise fail(f"the state directory {path}: {why}; choose another by DRYDOCK_STATE_DIR")


def require_free(bind: str) -> None:
    """ClickException when nothing can listen at `bind` (host and port)."""
    host, _, port = bind.rpartition(":")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_STREAM) as sock:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sock.bind((host.strip("[]"), int(port)))
    except OSError as error:
        why = error.strerror or str(error)
        raise fail(f"cannot serve on {bind}: {why}; choose another by DRYDOCK_BIND") from error

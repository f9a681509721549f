"""The operator's signing key, and the signed statement about what a run published.

The key is made at its first use, in a file that only its owner may read. A statement is written
once into the run's folder: publishing again attaches the same bytes.
"""

from __future__ import annotations

import json
import os
from datetime import datetime
from importlib.metadata import version
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
    load_pem_public_key,
)

from app.provenance import Circumstances, make_statement, sign_statement
from app.report import RunReport
from app.settings import Settings, SettingsError
from app.store import Run
from workers.run_folder import run_folder
from workers.services import Services

KEY_NAME = "signing-key.pem"
STATEMENT = "provenance.json"


def signing_key(settings: Settings) -> Ed25519PrivateKey:
    """Return the operator's key; the default one is made when there is none yet.

    SettingsError when it cannot be read, or is of another kind.
    """
    path = settings.signing_key or settings.state_dir / KEY_NAME
    try:
        if settings.signing_key is None and not path.exists():
            _make_key(path)
        key = load_pem_private_key(path.read_bytes(), password=None)
    except (OSError, ValueError, TypeError) as error:
        raise SettingsError((f"DRYDOCK_SIGNING_KEY: {path} cannot be read ({error})",)) from error
    if not isinstance(key, Ed25519PrivateKey):
        raise SettingsError((f"DRYDOCK_SIGNING_KEY: {path} is not an Ed25519 key",))
    return key


def _make_key(path: Path) -> None:
    """Write a new key, unless another process was quicker; nobody ever sees half of one."""
    pem = Ed25519PrivateKey.generate().private_bytes(
        Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()
    )
    part = path.with_suffix(f".{os.getpid()}.part")
    path.parent.mkdir(parents=True, exist_ok=True)
    handle = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(pem)
        os.link(part, path)
    except FileExistsError:
        return
    finally:
        part.unlink()


def read_public_key(path: Path) -> Ed25519PublicKey:
    """Return the public key in a PEM file. ValueError for any other; OSError."""
    try:
        key = load_pem_public_key(path.read_bytes())
    except TypeError as error:
        raise ValueError("not a public key") from error
    if not isinstance(key, Ed25519PublicKey):
        raise ValueError("not an Ed25519 key")  # noqa: TRY004 -- the file's content is wrong
    return key


def attest(services: Services, run: Run, report: RunReport) -> str:
    """Return the signed statement about a run's head, as JSON, and keep it in the run's folder."""
    path = run_folder(services.settings.state_dir, run.id) / STATEMENT
    if path.is_file():
        return path.read_text(encoding="utf-8")
    statement = make_statement(report, _circumstances(services, run))
    envelope = json.dumps(sign_statement(statement, signing_key(services.settings)))
    part = path.with_suffix(".part")
    part.write_text(envelope, encoding="utf-8")
    part.replace(path)
    return envelope


def _circumstances(services: Services, run: Run) -> Circumstances:
    settings = services.settings
    return Circumstances(
        repo_url=f"{services.github.url}/{run.repo}",
        builder_id=settings.web_url or "urn:drydock:host",
        version=version("drydock"),
        attempt=run.attempt,
        started_on=_rfc3339(run.created_at),
        finished_on=_rfc3339(services.clock()),
        asked_by_id=run.asked_by_id,
        brief_sha256=run.brief_sha256 or "",
    )


def _rfc3339(at: datetime) -> str:
    return at.isoformat(timespec="seconds").replace("+00:00", "Z")

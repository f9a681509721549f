"""What `drydock runs verify` does: find a signed statement, check it, tell what it says."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from app.provenance import NotVerified, Verified, verify_envelope
from app.settings import Settings, SettingsError
from app.store import reading
from app.store import runs as store
from cli.database import open_engine
from cli.errors import fail
from workers.attest import KEY_NAME, STATEMENT, read_public_key, signing_key
from workers.git import printable
from workers.run_folder import run_folder

_SHA = re.compile(r"[0-9a-f]{7,64}")


def find_statement(settings: Settings, sha: str) -> Path:
    """Return the file of the statement about a head that begins with `sha`, kept on this host."""
    if not _SHA.fullmatch(sha):
        raise fail(f"{printable(sha, 80)} is not a commit: give at least 7 digits of its SHA")
    with reading(open_engine(settings)) as session:
        run = store.by_head(session, sha)
    if run is None:
        raise fail(f"no run here published {sha}")
    path = run_folder(settings.state_dir, run.id) / STATEMENT
    if not path.is_file():
        raise fail(f"the statement of run {run.id} is not on this host; give it with --file")
    return path


def trusted_key(settings: Settings, path: Path | None) -> Ed25519PublicKey:
    """Return the public key in `path`, or the operator's own; none is made for this."""
    try:
        if path is not None:
            return read_public_key(path)
        if settings.signing_key is None and not (settings.state_dir / KEY_NAME).exists():
            raise fail("there is no signing key here yet; give a public one with --key")
        return signing_key(settings).public_key()
    except (OSError, ValueError, SettingsError) as error:
        raise fail(f"the key cannot be read: {error}") from error


def check_statement(path: Path, sha: str, key: Ed25519PublicKey) -> Verified:
    """Return the statement if it is signed and about `sha`; else end with what is wrong."""
    found = verify_envelope(path.read_bytes(), key)
    if isinstance(found, NotVerified):
        raise fail(f"not verified: {found.reason}")
    if not _SHA.fullmatch(sha) or not found.head_sha.startswith(sha):
        raise fail(f"not verified: the statement is about {printable(found.head_sha, 80)}")
    return found


def statement_lines(found: Verified) -> Iterator[str]:
    """Yield what a statement says, a line each, fit to be shown."""
    predicate: dict[str, Any] = found.statement["predicate"]
    definition, details = predicate["buildDefinition"], predicate["runDetails"]
    yield f"verified: {found.head_sha} (key {found.key_id[:16]})"
    for name, value in (
        *definition["externalParameters"].items(),
        *definition["internalParameters"].items(),
        *details["metadata"].items(),
        *((each["name"], each["annotations"]) for each in details["byproducts"]),
    ):
        yield f"{name}: {printable(str(value), 2_000)}"

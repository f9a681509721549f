"""Commits that this GitHub signs: those of an App's that name nobody and bring no signature.

https://docs.github.com/en/authentication/managing-commit-signature-verification/about-commit-signature-verification#signature-verification-for-bots

A commit counts as verified because it was made here, never because of a signature in it.
"""

from __future__ import annotations

import base64
import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING

from demo.github.git import GitRepo

if TYPE_CHECKING:
    from demo.github.records import User
    from demo.github.world import World

_BEGIN = "-----BEGIN PGP SIGNATURE-----"
_END = "-----END PGP SIGNATURE-----"


@dataclass(frozen=True)
class Signed:
    """What was signed, by what, and when, in seconds since the epoch."""

    payload: str
    signature: str
    at: float


def web_flow(world: World) -> User:
    """Return the account that stands as the committer of what GitHub makes itself."""
    found = world.find_user("web-flow")
    if found is None:
        found = world.add_user("web-flow", name="GitHub")
        found.email = "noreply@github.com"
    return found


def sign_commit(repo: GitRepo, sha: str, at: float) -> tuple[str, Signed]:
    """Write a commit again with a signature in it; returns its sha and what was signed."""
    raw = repo.run("cat-file", "commit", sha)
    body = base64.encodebytes(secrets.token_bytes(96)).decode().strip()
    signature = f"{_BEGIN}\n\n{body}\n{_END}\n"
    head, _, message = raw.partition(b"\n\n")
    header = "gpgsig " + signature.strip().replace("\n", "\n ")
    signed = head + b"\n" + header.encode() + b"\n\n" + message
    made = repo.run("hash-object", "-t", "commit", "-w", "--stdin", stdin=signed)
    return made.decode().strip(), Signed(raw.decode("utf-8", "replace"), signature, at)

"""The signature of a delivery, over its raw bytes and before anything is parsed. Pure."""

from __future__ import annotations

import hashlib
import hmac

SIGNATURE_HEADER = "X-Hub-Signature-256"
_SIGNATURE_PREFIX = "sha256="


def sign(secret: str, body: bytes) -> str:
    """Return the value of `X-Hub-Signature-256` for these bytes."""
    digest = hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
    return _SIGNATURE_PREFIX + digest


def verify_signature(secret: str, body: bytes, header: str | None) -> bool:
    """True only if `header` is the HMAC-SHA256 of the raw `body`, compared in constant time.

    ValueError when there is no secret: an empty key would let everybody sign.
    https://docs.github.com/en/webhooks/using-webhooks/validating-webhook-deliveries
    """
    if not secret:
        raise ValueError("a webhook secret is needed to verify a signature")
    given = (header or "").encode("utf-8", "replace")
    return hmac.compare_digest(sign(secret, body).encode(), given)

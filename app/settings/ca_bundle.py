"""The certificates that outgoing TLS trusts."""

from __future__ import annotations

import ssl
from pathlib import Path

from app.settings.values import Settings

_COMMON_BUNDLES = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
)


def system_ca_bundle(settings: Settings) -> Path | None:
    """Return the CA bundle for outgoing TLS: the operator's, or the system's; None if none."""
    if settings.ca_bundle is not None:
        return settings.ca_bundle
    found = ssl.get_default_verify_paths().cafile
    candidates = (found, *_COMMON_BUNDLES) if found else _COMMON_BUNDLES
    return next((Path(path) for path in candidates if Path(path).is_file()), None)

"""Who may see the dashboard (pure).

It shows issues, briefs and logs of private repositories, and the webhook's address has to be
reachable from the internet, so the two must not share one rule:

- With `dashboard_token` set, that token is the password, whoever asks: HTTP Basic with any user
  name, or `Authorization: Bearer`. Put TLS in front before using it across a network.
- Without one, only a browser on the same host gets in: the peer is loopback, the `Host` is a
  loopback name (which also stops DNS rebinding), and nothing suggests a reverse proxy between
  (forwarding headers, or HTTP/1.0, which nginx speaks to its upstream by default). A proxy that
  hides itself completely would pass, so whoever runs one on this host forwards only
  `/webhooks/github` or sets a token.

`/webhooks/github`, `/healthz`, `/readyz` and `/metrics` are open: the first is signed, the others
name no repository, and `/readyz` gives its reasons only to who may see the dashboard.
"""

from __future__ import annotations

import hmac
import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

_FORWARDING = (
    "forwarded",
    "via",
    "x-forwarded-for",
    "x-forwarded-host",
    "x-forwarded-proto",
    "x-real-ip",
)


@dataclass(frozen=True)
class Viewer:
    """What is known of a request. Header names are lower case; `password` is what it brought."""

    peer: str | None
    host: str
    protocol: str
    headers: Mapping[str, str]
    password: str | None


@dataclass(frozen=True)
class Refused:
    """`ask` is whether a password would help."""

    reason: str
    ask: bool = False


def refuse(viewer: Viewer, token: str | None) -> Refused | None:
    """Return why a request may not see the dashboard; None when it may."""
    if token is not None:
        given = (viewer.password or "").encode()
        if hmac.compare_digest(given, token.encode()):
            return None
        return Refused("the dashboard's token is needed", ask=True)
    if not (_is_loopback(viewer.peer) and _is_loopback_name(viewer.host)):
        return Refused("without DRYDOCK_DASHBOARD_TOKEN the dashboard is for this host alone")
    if viewer.protocol == "HTTP/1.0" or any(name in viewer.headers for name in _FORWARDING):
        return Refused("behind a proxy the dashboard needs DRYDOCK_DASHBOARD_TOKEN")
    return None


def _is_loopback(address: str | None) -> bool:
    try:
        parsed = ipaddress.ip_address(address or "")
    except ValueError:
        return False
    mapped = getattr(parsed, "ipv4_mapped", None)
    return bool((mapped or parsed).is_loopback)


def _is_loopback_name(host: str) -> bool:
    try:
        name = urlsplit(f"//{host}").hostname
    except ValueError:
        return False
    return name == "localhost" or _is_loopback(name)

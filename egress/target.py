"""What a guest's request line asks for, judged: pure, one verdict with one reason.

Three things can be allowed: origin form to `/model/<name>/…`, CONNECT to a granted host, and
absolute form (`GET http://host/…`) to a host that is granted for plain HTTP. The form decides which
rules hold, and a Host header that says something else is refused.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from egress.guest import RequestHead
from egress.hosts import DEFAULT_PORTS, BadHost, normalise_host
from egress.policy import (
    Decision,
    Grant,
    Manifest,
    Phase,
    decide_connect,
    decide_plain,
    decide_request,
    model_in_path,
)

MAX_SHOWN = 200
_AUTHORITY = re.compile(r"(.+):([0-9]{1,5})")
_ABSOLUTE = re.compile(r"http://([^/?#@]+)(/[^?#]*)?(?:\?([^#]*))?")
_ROUTE = re.compile(r"/model/([^/]+)(/.*)")
_USERINFO = re.compile(r"//[^/@]*@")


@dataclass(frozen=True)
class Verdict:
    """Allowed when `grant` is set: then `path` and `query` are what the upstream is asked for.

    `model` is what a model route's path names, where it does; `host` (normalised) and `port` are
    set for a tunnel's two forms. Without a grant, `status` and
    `reason` are the answer.
    """

    status: int
    reason: str
    grant: Grant | None = None
    path: str = ""
    query: str = ""
    host: str = ""
    port: int = 0
    model: str | None = None


def judge(manifest: Manifest, phase: Phase, head: RequestHead) -> Verdict:
    """Judge one request by its line and headers."""
    if any(name == "upgrade" for name, _ in head.headers):
        return Verdict(403, "no protocol upgrade is granted")
    if head.method == "CONNECT":
        return _judge_connect(manifest, phase, head)
    if not head.target.startswith("/"):
        return _judge_absolute(manifest, phase, head)
    return _judge_origin(manifest, phase, head)


def clean_target(method: str, target: str) -> str:
    """Return a request line as it may be shown: no query, no user, printable, cut."""
    shown = _USERINFO.sub("//", target.partition("?")[0])
    shown = "".join(each if each.isascii() and each.isprintable() else "?" for each in shown)
    return f"{method} {shown}"[:MAX_SHOWN]


def _judge_connect(manifest: Manifest, phase: Phase, head: RequestHead) -> Verdict:
    found = _AUTHORITY.fullmatch(head.target)
    if found is None:
        return Verdict(400, "CONNECT needs host:port")
    if any(name in ("content-length", "transfer-encoding") for name, _ in head.headers):
        return Verdict(400, "CONNECT has no body")
    host, port = found[1], int(found[2])
    decision = decide_connect(manifest, phase, host, port)
    # Older clients leave the port out of CONNECT's Host header.
    return _at_host(decision, head, (host, port), default_port=port)


def _judge_absolute(manifest: Manifest, phase: Phase, head: RequestHead) -> Verdict:
    found = _ABSOLUTE.fullmatch(head.target)
    if found is None:
        return Verdict(403, "a target is /model/<name>/..., host:port for CONNECT, or http://...")
    host, port = _split_authority(found[1], DEFAULT_PORTS["http"])
    path = found[2] or "/"
    decision = decide_plain(manifest, phase, head.method, host, port, path)
    verdict = _at_host(decision, head, (host, port), default_port=DEFAULT_PORTS["http"])
    return replace(verdict, path=path, query=found[3] or "")


def _at_host(
    decision: Decision, head: RequestHead, target: tuple[str, int], *, default_port: int
) -> Verdict:
    """Return the verdict of a decision, unless a Host header names something else."""
    if not decision.allowed or decision.grant is None:
        return Verdict(403, decision.reason)
    wanted = (normalise_host(target[0]), target[1])
    given = [value for key, value in head.headers if key == "host"]
    if any(_normalise_authority(value, default_port) != wanted for value in given):
        return Verdict(400, f"the Host header differs from the target {wanted[0]}")
    return Verdict(200, decision.reason, decision.grant, host=wanted[0], port=wanted[1])


def _normalise_authority(text: str, default_port: int) -> tuple[str, int] | None:
    host, port = _split_authority(text, default_port)
    try:
        return normalise_host(host), port
    except BadHost:
        return None


def _split_authority(text: str, default_port: int) -> tuple[str, int]:
    """Return host and port of `host[:port]`; an IPv6 address has brackets."""
    found = None if text.endswith("]") else _AUTHORITY.fullmatch(text)
    return (found[1], int(found[2])) if found else (text, default_port)


def _judge_origin(manifest: Manifest, phase: Phase, head: RequestHead) -> Verdict:
    path, _, query = head.target.partition("?")
    found = _ROUTE.fullmatch(path)
    if found is None:
        return Verdict(403, "only model routes are served in origin form: /model/<name>/...")
    decision = decide_request(manifest, phase, found[1], head.method, found[2])
    if not decision.allowed or decision.grant is None:
        # A grant in a refusal means that only the method was wrong.
        return Verdict(405 if decision.grant else 403, decision.reason)
    prefix = decision.grant.path_prefix.rstrip("/")
    return Verdict(
        200,
        decision.reason,
        decision.grant,
        prefix + found[2],
        query,
        model=model_in_path(decision.grant, found[2]),
    )

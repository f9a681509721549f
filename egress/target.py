"""What a guest's request line asks for, judged: pure, one verdict with one reason.

Only origin-form requests to `/model/<name>/…` can be allowed here. CONNECT and absolute form are
judged too, so that the refusal names what was tried.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from egress.guest import RequestHead
from egress.policy import Grant, Manifest, Phase, decide_connect, decide_request

MAX_SHOWN = 200
_AUTHORITY = re.compile(r"(.+):([0-9]{1,5})")
_ROUTE = re.compile(r"/model/([^/]+)(/.*)")
_USERINFO = re.compile(r"//[^/@]*@")


@dataclass(frozen=True)
class Verdict:
    """Allowed when `grant` is set: then `path` and `query` are what the upstream is asked for.

    Else `status` and `reason` are the answer.
    """

    status: int
    reason: str
    grant: Grant | None = None
    path: str = ""
    query: str = ""


def judge(manifest: Manifest, phase: Phase, head: RequestHead) -> Verdict:
    """Judge one request by its line and headers."""
    if any(name == "upgrade" for name, _ in head.headers):
        return Verdict(403, "no protocol upgrade is granted")
    if head.method == "CONNECT":
        return _judge_connect(manifest, phase, head.target)
    if not head.target.startswith("/"):
        return Verdict(403, "only model routes are granted, in origin form: /model/<name>/...")
    return _judge_origin(manifest, phase, head)


def clean_target(method: str, target: str) -> str:
    """Return a request line as it may be shown: no query, no user, printable, cut."""
    shown = _USERINFO.sub("//", target.partition("?")[0])
    shown = "".join(each if each.isascii() and each.isprintable() else "?" for each in shown)
    return f"{method} {shown}"[:MAX_SHOWN]


def _judge_connect(manifest: Manifest, phase: Phase, target: str) -> Verdict:
    found = _AUTHORITY.fullmatch(target)
    if found is None:
        return Verdict(400, "CONNECT needs host:port")
    decision = decide_connect(manifest, phase, found[1], int(found[2]))
    # The broker takes no manifest with tunnels; whatever came here is refused all the same.
    return Verdict(403, decision.reason if not decision.allowed else "no tunnels are served here")


def _judge_origin(manifest: Manifest, phase: Phase, head: RequestHead) -> Verdict:
    path, _, query = head.target.partition("?")
    found = _ROUTE.fullmatch(path)
    if found is None:
        return Verdict(403, "only model routes are granted: /model/<name>/...")
    decision = decide_request(manifest, phase, found[1], head.method, found[2])
    if not decision.allowed or decision.grant is None:
        # A grant in a refusal means that only the method was wrong.
        return Verdict(405 if decision.grant else 403, decision.reason)
    prefix = decision.grant.path_prefix.rstrip("/")
    return Verdict(200, decision.reason, decision.grant, prefix + found[2], query)

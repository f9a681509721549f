from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from egress.audit import AuditLog
from egress.broker import Broker, Limits
from egress.guest import GuestLimits
from egress.inject import Credential
from egress.meter import Meter, Price
from egress.policy import Grant, GrantKind, Manifest, Wire
from egress.upstream import UpstreamLimits
from tests.egress.listener import Listener

PRICES = {"model-a": Price(input=1e-3, output=2e-3)}
QUICK = Limits(
    GuestLimits(head_s=5, body_s=5, send_s=5, idle_s=10),
    UpstreamLimits(connect_s=5, silence_s=10, total_s=20),
)

MakeBroker = Callable[..., Listener]


@pytest.fixture
def key() -> str:
    return "test-key-" + secrets.token_hex(16)


@pytest.fixture
def chat() -> Mapping[str, Any]:
    return {"model": "model-a", "messages": [{"role": "user", "content": "Say something."}]}


def grant_for(port: int, **changes: Any) -> Grant:
    values: dict[str, Any] = {
        "name": "openai",
        "kind": GrantKind.MODEL_ROUTE,
        "scheme": "http",
        "host": "127.0.0.1",
        "port": port,
        "methods": frozenset({"POST"}),
        "credential": "openai",
        "wire": Wire.OPENAI,
    }
    return Grant(**{**values, **changes})


@pytest.fixture
def audit(tmp_path: Path) -> Iterator[AuditLog]:
    with AuditLog(tmp_path / "audit.jsonl") as log:
        yield log


@pytest.fixture
def serve(key: str, audit: AuditLog) -> Iterator[MakeBroker]:
    """Start a broker for one upstream port, behind a loopback listener."""
    with ExitStack() as stack:

        def make(
            port: int,
            *,
            grant: Mapping[str, Any] | None = None,
            header: str | None = None,
            **changes: Any,
        ) -> Listener:
            made = grant_for(port, **(grant or {}))
            header = header or ("authorization" if made.wire is Wire.OPENAI else "x-api-key")
            origin = (made.scheme, made.host, made.port)
            credentials = {}
            if made.credential:
                credentials = {made.credential: Credential(made.credential, header, key, origin)}
            options: dict[str, Any] = {
                "meter": Meter(PRICES),
                "limits": QUICK,
                "audit": audit,
                **changes,
            }
            broker = Broker(Manifest("run-1", (made,)), credentials=credentials, **options)
            return stack.enter_context(Listener(broker))

        yield make

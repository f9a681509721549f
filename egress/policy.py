"""Grants and decisions: what one run may reach, as values, and the reason for each answer.

Pure: no clock, network or environment. No grant is no.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum


class Phase(StrEnum):
    SETUP = "setup"
    AGENT = "agent"
    VERIFY = "verify"


class GrantKind(StrEnum):
    MODEL_ROUTE = "model_route"
    TUNNEL = "tunnel"


class Wire(StrEnum):
    """Which vendor's format a model route speaks; decides credential header and usage fields."""

    OPENAI = "openai"
    ANTHROPIC = "anthropic"


@dataclass(frozen=True)
class Grant:
    """One allowed upstream. `name` is the route's name (`/model/<name>/…`) or the tunnel's label.

    `credential` names the injector, never holds the secret.
    """

    name: str
    kind: GrantKind
    scheme: str
    host: str
    port: int
    methods: frozenset[str] = frozenset({"GET", "POST"})
    path_prefix: str = "/"
    credential: str | None = None
    wire: Wire | None = None
    phases: frozenset[Phase] = frozenset({Phase.AGENT})
    reason: str = ""


@dataclass(frozen=True)
class Manifest:
    """Everything one run may reach; immutable, hashed into the pull request."""

    run_id: str
    grants: tuple[Grant, ...] = field(default=())


@dataclass(frozen=True)
class Decision:
    allowed: bool
    reason: str
    grant: Grant | None = None


@dataclass(frozen=True)
class Refusal:
    """One refused attempt, as it is recorded and shown. `target` is cleaned for display."""

    at: float
    phase: Phase
    target: str
    reason: str

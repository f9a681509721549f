"""What the views work with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime

from pydantic import SecretStr
from sqlalchemy import Engine

from app.settings import Settings
from app.store import Inbox
from app.web.counts import SharedCounts

Probe = Callable[[], str]
"""Returns a word or two when all is well, and raises an exception that says why not."""


@dataclass(frozen=True)
class Deps:
    """Built once by `create_app` and handed to each blueprint."""

    settings: Settings
    webhook_secret: SecretStr
    engine: Engine
    inbox: Inbox
    enqueue: Callable[[str], None]
    clock: Callable[[], datetime]
    probes: Mapping[str, Probe]
    refused: SharedCounts

"""Log lines: one JSON object each, or coloured text for a terminal, on standard error."""

from __future__ import annotations

import sys
from typing import Any

import structlog


def configure_logging(log_format: str) -> None:
    """Set structlog up for this process; `log_format` is `json`, `console` or `auto`.

    Tracebacks come without local variables, which structlog shows by default: among them would be
    request bodies and secrets.
    """
    as_text = log_format == "console" or (log_format == "auto" and sys.stderr.isatty())
    rendering: list[Any] = (
        [structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)]
        if as_text
        else [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
    )
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            *rendering,
        ],
        logger_factory=structlog.WriteLoggerFactory(file=sys.stderr),
        cache_logger_on_first_use=True,
    )

"""An open-loop load: requests leave on time, whether or not the earlier ones were answered."""

from __future__ import annotations

import http.client
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit

CLIENTS = 32


def post_at_rate(
    url: str, make: Callable[[int], tuple[bytes, Mapping[str, str]]], *, rate: float, seconds: float
) -> list[float]:
    """POST `rate` requests a second, each on a connection of its own as GitHub does.

    Returns the seconds from when each was due until it was answered with 202, so that a server
    that falls behind shows it. RuntimeError for any other answer.
    """
    start = time.monotonic() + 0.2
    count = int(rate * seconds)
    prepared = [make(number) for number in range(count)]

    def one(number: int) -> float:
        due = start + number / rate
        threading.Event().wait(max(0.0, due - time.monotonic()))
        _post(url, *prepared[number])
        return time.monotonic() - due

    with ThreadPoolExecutor(CLIENTS) as pool:
        return list(pool.map(one, range(count)))


def _post(url: str, body: bytes, headers: Mapping[str, str]) -> None:
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=10)
    try:
        connection.request("POST", parts.path, body, dict(headers))
        answer = connection.getresponse()
        answer.read()
        if answer.status != 202:
            raise RuntimeError(f"{url} answered {answer.status}")
    finally:
        connection.close()

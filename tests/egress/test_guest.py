from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from egress.guest import BadRequest, GuestConnection, GuestGone, GuestLimits, head_problem
from egress.watchdog import Watchdog

LIMITS = GuestLimits(head_bytes=1000, header_count=10, body_bytes=100)


class Memory:
    """A duplex in memory: what the guest sends, in pieces, and what it is sent."""

    def __init__(self, *pieces: bytes) -> None:
        self.pieces = list(pieces)
        self.sent = b""

    def recv(self, limit: int) -> bytes:
        if not self.pieces:
            return b""
        piece = self.pieces.pop(0)
        if len(piece) > limit:
            self.pieces.insert(0, piece[limit:])
        return piece[:limit]

    def sendall(self, data: bytes) -> None:
        self.sent += data

    def close(self) -> None: ...


@pytest.fixture(scope="module")
def watchdog() -> Iterator[Watchdog]:
    watchdog = Watchdog()
    watchdog.CLOSE_WAIT_S = 0.0  # type: ignore[misc]
    yield watchdog
    watchdog.close()


def connect(watchdog: Watchdog, *pieces: bytes) -> tuple[GuestConnection, Memory]:
    memory = Memory(*pieces)
    guard = watchdog.guard(memory.close)
    assert guard is not None
    return GuestConnection(memory, guard, LIMITS), memory


def refused(watchdog: Watchdog, *pieces: bytes) -> BadRequest:
    guest, _ = connect(watchdog, *pieces)
    with pytest.raises(BadRequest) as caught:
        guest.read_head() and guest.read_body()
    return caught.value


POST = b"POST /a HTTP/1.1\r\nHost: x\r\n"


@given(st.integers(1, 60))
def test_a_request_is_read_however_it_is_cut(step: int) -> None:
    watchdog = Watchdog()
    data = POST + b"Content-Length: 5\r\n\r\nhello" + POST + b"Content-Length: 0\r\n\r\n"
    guest, memory = connect(watchdog, *(data[at : at + step] for at in range(0, len(data), step)))
    head = guest.read_head()
    assert head is not None
    assert (head.method, head.target) == ("POST", "/a")
    assert guest.read_body() == b"hello"
    guest.answer(200, b"yes", "text/plain")
    assert guest.reusable
    assert guest.read_head() is not None
    assert guest.read_body() == b""
    guest.answer(200, b"", "text/plain")
    assert guest.read_head() is None
    assert memory.sent.count(b"HTTP/1.1 200 OK\r\n") == 2


def test_a_chunked_body_is_read(watchdog: Watchdog) -> None:
    data = POST + b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2;x=y\r\nde\r\n0\r\nT: 1\r\n\r\n"
    guest, _ = connect(watchdog, data)
    assert guest.read_head() is not None
    assert guest.read_body() == b"abcde"


def test_a_guest_that_waits_to_be_asked_is_asked(watchdog: Watchdog) -> None:
    guest, memory = connect(
        watchdog, POST + b"Content-Length: 2\r\nExpect: 100-continue\r\n\r\n", b"ab"
    )
    assert guest.read_head() is not None
    assert guest.read_body() == b"ab"
    assert memory.sent.startswith(b"HTTP/1.1 100 ")


def test_a_refused_guest_that_waits_to_be_asked_is_not_asked(watchdog: Watchdog) -> None:
    guest, memory = connect(
        watchdog, POST + b"Content-Length: 2\r\nExpect: 100-continue\r\n\r\n", b"ab"
    )
    assert guest.read_head() is not None
    guest.skip_body()
    guest.answer(403, b"no", "text/plain")
    assert memory.sent.startswith(b"HTTP/1.1 403 ")
    assert not guest.reusable


@pytest.mark.parametrize(
    ("data", "status", "says"),
    [
        (POST + b"Content-Length: 3\r\nContent-Length: 4\r\n\r\nabcd", 400, "more than one"),
        (
            POST + b"Content-Length: 3\r\nContent-Length: 3\r\n\r\nabc",
            400,
            "more than one",
        ),
        (POST + b"Content-Length: 3, 3\r\n\r\nabc", 400, "more than one"),
        (POST + b"Content-Length: -1\r\n\r\n", 400, "HTTP/1.1"),
        (POST + b"Content-Length: +3\r\n\r\nabc", 400, "HTTP/1.1"),
        (
            POST + b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            400,
            "both",
        ),
        (POST + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", 501, "HTTP/1.1"),
        (POST + b"Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n", 400, "HTTP/1.1"),
        (POST + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n", 400, "HTTP/1.1"),
        (POST + b"A: 1\n\r\n\r\n", 400, "bare line feeds"),
        (POST + b"A: 1\rB: 2\r\n\r\n", 400, "bare line feeds"),
        (b"POST /a HTTP/1.1\nHost: x\n\n", 400, "bare line feeds"),
        (POST + b"A: 1\r\n B: 2\r\n\r\n", 400, "folded"),
        (POST + b"A: \0\r\n\r\n", 400, "zero byte"),
        (POST + b"Host: y\r\n\r\n", 400, "HTTP/1.1"),
        (b"POST /a HTTP/1.1\r\nA: 1\r\n\r\n", 400, "HTTP/1.1"),
        (b"GET /a HTTP/1.0\r\nHost: x\r\n\r\n", 505, "HTTP/1.1 only"),
        (b"GET /a HTTP/2.0\r\nHost: x\r\n\r\n", 505, "HTTP/1.1 only"),
        (b"GET /a\r\n\r\n", 400, "HTTP/1.1"),
        (b"\r\n\r\n", 400, "HTTP/1.1"),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505, "HTTP/2"),
        (b"\x16\x03\x01\x02\x00\x01\x00", 400, "TLS"),
        (b"\x00\xff" * 20 + b"\r\n\r\n", 400, ""),
        (b"x" * 1001, 431, "over 1000 bytes"),
        (POST + b"A: " + b"x" * 1000 + b"\r\n\r\n", 431, "over 1000 bytes"),
        (POST + b"A: 1\r\n" * 10 + b"\r\n", 431, "over 10 headers"),
        (POST + b"Content-Length: 101\r\n\r\n" + b"x" * 101, 413, "over 100 bytes"),
        (POST + b"Content-Length: 5\r\n\r\nabc", 400, "HTTP/1.1|within the body"),
        (POST, 400, "within the headers"),
    ],
)
def test_what_is_ambiguous_oversized_or_garbage_is_refused(
    watchdog: Watchdog, data: bytes, status: int, says: str
) -> None:
    error = refused(watchdog, data)
    assert error.status == status
    assert any(each in error.reason for each in says.split("|")), error.reason


def test_nothing_at_all_is_no_request(watchdog: Watchdog) -> None:
    assert connect(watchdog)[0].read_head() is None
    assert connect(watchdog, b"\r\n")[0].read_head() is None


@given(st.binary(max_size=200))
def test_no_bytes_do_more_than_be_refused(data: bytes) -> None:
    guest, _ = connect(Watchdog(), data)
    try:
        while guest.read_head() is not None:
            guest.read_body()
            guest.answer(200, b"", "text/plain")
    except (BadRequest, GuestGone):
        return


@given(st.binary(max_size=60))
def test_a_head_with_a_single_reading_has_no_bare_line_ends(data: bytes) -> None:
    if head_problem(data + b"\r\n\r\n") is None:
        rest = data.replace(b"\r\n", b"")
        assert b"\n" not in rest
        assert b"\r" not in rest

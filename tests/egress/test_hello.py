from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from egress.hello import (
    MAX_HELLO,
    MAX_RECORD,
    BadHello,
    ClientHello,
    HelloReader,
    RecordChecker,
)
from tests.effort import effort
from tests.egress.hellos import (
    ECH,
    SNI,
    client_hello,
    handshake,
    hello_body,
    openssl_hello,
    records,
    sni,
)


def read(data: bytes, size: int | None = None) -> ClientHello | None:
    """Feed in pieces of `size`, all at once by default; stop where the hello is whole."""
    reader = HelloReader()
    step = size or max(1, len(data))
    for at in range(0, len(data), step):
        if (found := reader.feed(data[at : at + step])) is not None:
            return found
    return None


@pytest.mark.parametrize("size", [None, 1, 7])
def test_a_real_hello_tells_its_server_name(size: int | None) -> None:
    assert read(openssl_hello("files.example"), size) == ClientHello("files.example")


def test_a_real_hello_without_a_name_has_none() -> None:
    assert read(openssl_hello(None)) == ClientHello(None)


def test_a_hello_without_extensions_has_no_name() -> None:
    assert read(client_hello(None)) == ClientHello(None)


@pytest.mark.parametrize("kind", [ECH, 0xFE08, 0xFFCE])
def test_a_hidden_name_is_told(kind: int) -> None:
    hello = client_hello([(SNI, sni(b"a.example")), (kind, b"\x00" * 40)])
    assert read(hello) == ClientHello("a.example", encrypted=True)


def test_a_hello_in_many_records_is_one() -> None:
    assert read(client_hello([(SNI, sni(b"a.example"))], size=3)) == ClientHello("a.example")


def test_what_was_fed_goes_on_unchanged() -> None:
    reader = HelloReader()
    data = client_hello([(SNI, sni(b"a.example"))]) + b"early data"
    reader.feed(data[:20])
    reader.feed(data[20:])
    assert reader.raw == data


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"GET / HTTP/1.1\r\n", "not TLS"),
        (b"SSH-2.0-x\r\n", "not TLS"),
        (b"\x16\x02\x00\x00\x05hello", "not TLS"),
        (b"\x80\x2e\x01\x03\x01", "not TLS"),
        (b"\x17\x03\x03\x00\x05hello", "another TLS record"),
        (b"\x16\x03\x01\x00\x00", "an empty TLS record"),
        (b"\x16\x03\x01\xff\xff", "too long"),
        (records(b"\x02\x00\x00\x04abcd"), "begins with a ClientHello"),
        (records(b"\x01" + (MAX_HELLO + 1).to_bytes(3, "big")), "is over"),
        (records(handshake(hello_body([])[:20])), "cut off"),
        (records(handshake(hello_body([]) + b"x")), "follow"),
        (client_hello([(SNI, sni(b"a")), (SNI, sni(b"b"))]), "repeated"),
        (client_hello([(SNI, sni(b"a", b"b"))]), "not one host name"),
        (client_hello([(SNI, sni(b"a", kind=1))]), "not one host name"),
        (client_hello([(SNI, sni(b"a") + b"x")]), "not one host name"),
        (client_hello([(SNI, sni(b"\xff"))]), "not ASCII"),
        (client_hello([(SNI, b"\x00\x09\x00")]), "cut off"),
    ],
)
def test_what_cannot_be_judged_is_no_hello(data: bytes, says: str) -> None:
    with pytest.raises(BadHello, match=says):
        read(data)


def test_another_record_within_the_hello_is_refused() -> None:
    cut = client_hello([(SNI, sni(b"a.example"))], size=10)[:15]
    with pytest.raises(BadHello, match="another TLS record"):
        read(cut + b"\x17\x03\x03\x00\x01x")


@given(st.binary(max_size=400), st.integers(1, 50))
def test_any_bytes_end_in_a_value_or_a_refusal(data: bytes, size: int) -> None:
    for prefix in (b"", b"\x16\x03\x01", records(handshake(data))):
        try:
            whole = read(prefix + data)
        except BadHello:
            continue
        assert whole is None or isinstance(whole, ClientHello)
        assert read(prefix + data, size) == whole


@given(st.from_regex(rb"[a-z0-9.-]{1,80}", fullmatch=True), st.integers(1, 60), st.integers(1, 60))
def test_however_it_is_cut_the_name_is_the_same(name: bytes, record: int, piece: int) -> None:
    data = client_hello([(10, b"\x00\x02\x00\x1d"), (SNI, sni(name)), (16, b"")], size=record)
    assert read(data, piece) == ClientHello(name.decode())


@given(st.integers(0, 200))
def test_a_cut_hello_is_not_yet_one(cut: int) -> None:
    data = client_hello([(SNI, sni(b"a" * 60))])
    if cut < len(data):
        assert read(data[:cut]) is None


@given(st.lists(st.binary(max_size=300), max_size=5), st.integers(1, 40))
def test_records_are_followed_however_they_are_cut(payloads: list[bytes], step: int) -> None:
    data = b"".join(b"\x17\x03\x03" + len(p).to_bytes(2, "big") + p for p in payloads)
    checker = RecordChecker()
    for at in range(0, len(data), step):
        checker.feed(data[at : at + step])
    with pytest.raises(BadHello, match="not TLS"):
        checker.feed(b"GET / HTTP/1.1")


def test_a_record_that_is_too_long_is_refused() -> None:
    with pytest.raises(BadHello, match="too long"):
        RecordChecker().feed(b"\x17\x03\x03" + (MAX_RECORD + 1).to_bytes(2, "big"))


def long_hello() -> bytes:
    """Return a hello of nearly the limit, each byte of it in a record of its own."""
    filling = b"\0" * (MAX_HELLO - 200)
    return client_hello([(SNI, sni(b"a.example")), (21, filling)], size=1)


@pytest.mark.parametrize("size", [1, 2, 5, 6, 7, 4096, None])
def test_a_hello_of_many_records_costs_no_more_than_its_length(size: int | None) -> None:
    data = long_hello()
    assert read(data, size) == ClientHello("a.example")
    assert effort(lambda: read(data, size), 1) < 1


def test_no_more_than_six_times_the_limit_is_ever_kept() -> None:
    reader = HelloReader()
    claimed = b"\x01" + MAX_HELLO.to_bytes(3, "big") + b"\0" * MAX_HELLO
    data = records(claimed, size=1)
    assert reader.feed(data[:-1]) is None
    with pytest.raises(BadHello, match="follow"):
        reader.feed(data[-1:])
    assert len(reader.raw) <= 6 * (MAX_HELLO + 4)


def test_what_follows_the_hello_is_kept_and_not_judged() -> None:
    reader = HelloReader()
    data = client_hello([(SNI, sni(b"a.example"))]) + b"not TLS at all"
    assert reader.feed(data) == ClientHello("a.example")
    assert reader.raw == data

from __future__ import annotations

import ipaddress
from ipaddress import IPv4Address, IPv6Address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from egress.hosts import (
    BadHost,
    BaseUrl,
    HostPattern,
    address_class,
    format_authority,
    is_escaped_path,
    is_loopback,
    is_plain_path,
    normalise_host,
    parse_base_url,
    parse_pattern,
)


@pytest.mark.parametrize(
    ("text", "host"),
    [
        ("Example.COM", "example.com"),
        ("example.com.", "example.com"),
        ("my_service", "my_service"),
        ("bücher.example", "xn--bcher-kva.example"),
        ("BÜCHER.example", "xn--bcher-kva.example"),
        ("xn--bcher-kva.example", "xn--bcher-kva.example"),
        ("例え。テスト", "xn--r8jz45g.xn--zckzah"),
        ("[::1]", "::1"),
        ("::1", "::1"),
        ("[0:0:0:0:0:0:0:1]", "::1"),
        ("[::ffff:127.0.0.1]", "127.0.0.1"),
        ("::ffff:7f00:1", "127.0.0.1"),
        ("127.0.0.1", "127.0.0.1"),
        ("127.0.0.1.", "127.0.0.1"),
        ("127.1", "127.0.0.1"),
        ("127.0.1", "127.0.0.1"),
        ("2130706433", "127.0.0.1"),
        ("0x7f000001", "127.0.0.1"),
        ("0X7F.1", "127.0.0.1"),
        ("017700000001", "127.0.0.1"),
        ("0177.0.0.01", "127.0.0.1"),
        ("0x7f.0.0x0.1", "127.0.0.1"),
        ("0xa9fea9fe", "169.254.169.254"),
        ("0", "0.0.0.0"),  # noqa: S104
        ("\uff11\uff12\uff17.0.0.1", "127.0.0.1"),
    ],
)
def test_every_spelling_of_a_host_becomes_one(text: str, host: str) -> None:
    assert normalise_host(text) == host


@pytest.mark.parametrize(
    "text",
    [
        "",
        ".",
        "a..b",
        "-a.example",
        "a-.example",
        "exa mple.com",
        "example.com/",
        "user@example.com",
        "example.com:443",
        "ex%61mple.com",
        "a" * 64 + ".example",
        ".".join(["abcdefghi"] * 26),
        "256.1.1.1",
        "1.2.3.4.5",
        "1.2.3.256",
        "4294967296",
        "0x1ffffffff",
        "08.0.0.1",
        "example.1",
        "0x",
        "1" * 5000,
        "[::1",
        "::1]",
        "[::1%eth0]",
        "fe80::1%1",
        "[1.2.3.4]",
        "xn--a.example",
        "a\0b.example",
        "a\u200b\u2028.example",
        "*.example.com",
    ],
)
def test_what_is_no_host_is_refused_and_not_guessed_at(text: str) -> None:
    if text == "0x":
        # The URL standard reads an empty hexadecimal number as zero.
        assert normalise_host(text) == "0.0.0.0"  # noqa: S104
        return
    with pytest.raises(BadHost):
        normalise_host(text)


@given(st.text(max_size=40))
def test_normalising_is_total_and_idempotent(text: str) -> None:
    try:
        host = normalise_host(text)
    except BadHost:
        return
    assert normalise_host(host) == host
    assert host.isascii()
    assert host == host.lower()


_LABELS = st.from_regex(r"[a-z][a-z0-9]{0,8}", fullmatch=True)


@given(st.lists(_LABELS, min_size=1, max_size=4), st.randoms(use_true_random=False))
def test_case_and_a_trailing_dot_make_no_difference(labels: list[str], random: object) -> None:
    host = ".".join(labels)
    assert normalise_host(host.upper() + ".") == normalise_host(host) == host


@given(st.ip_addresses(v=4))
def test_every_form_of_an_ipv4_address_is_that_address(address: ipaddress.IPv4Address) -> None:
    number = int(address)
    a, b, c, d = address.packed
    forms = [
        str(number),
        hex(number),
        f"0{number:o}",
        f"{a}.{number & 0xFFFFFF}",
        f"{a}.{b}.{number & 0xFFFF}",
        f"{a:#x}.{b:#x}.{c:#x}.{d:#x}",
        f"0{a:o}.0{b:o}.0{c:o}.0{d:o}",
        f"[::ffff:{address}]",
    ]
    assert {normalise_host(form) for form in forms} == {str(address)}


@pytest.mark.parametrize(
    ("pattern", "host", "matches"),
    [
        ("example.com", "example.com", True),
        ("EXAMPLE.com.", "example.com", True),
        ("example.com", "a.example.com", False),
        ("*.example.com", "a.example.com", True),
        ("*.example.com", "example.com", False),
        ("*.example.com", "a.b.example.com", False),
        ("*.example.com", "badexample.com", False),
        ("*.example.com", ".example.com", False),
        ("127.1", "127.0.0.1", True),
        ("*.0.0.example", "127.0.0.example", True),
    ],
)
def test_a_wildcard_stands_for_exactly_one_whole_label(
    pattern: str, host: str, matches: bool
) -> None:
    assert parse_pattern(pattern).matches(host) is matches


@pytest.mark.parametrize(
    "pattern",
    [
        "*",
        "*.",
        "*.com",
        "*example.com",
        "a.*.com",
        "*.*.com",
        "foo*",
        "*.127.0.0.1",
        "*.0.0.1",
        "",
    ],
)
def test_a_bad_pattern_is_refused(pattern: str) -> None:
    with pytest.raises(BadHost):
        parse_pattern(pattern)


@pytest.mark.parametrize(
    ("text", "base"),
    [
        ("https://api.example", BaseUrl("https", "api.example", 443, "")),
        ("https://API.example:8443/llm/v1/", BaseUrl("https", "api.example", 8443, "/llm/v1")),
        ("http://[::1]:8080/v1", BaseUrl("http", "::1", 8080, "/v1")),
        ("http://localhost", BaseUrl("http", "localhost", 80, "")),
        ("http://0x7f.1:1/", BaseUrl("http", "127.0.0.1", 1, "")),
        (" https://bücher.example/a ", BaseUrl("https", "xn--bcher-kva.example", 443, "/a")),
    ],
)
def test_a_base_url_is_read(text: str, base: BaseUrl) -> None:
    assert parse_base_url(text) == base


@pytest.mark.parametrize(
    "text",
    [
        "",
        "api.example",
        "ftp://api.example",
        "https://",
        "https://user:pass@api.example",
        "https://api.example/?key=1",
        "https://api.example/#a",
        "https://api.example:99999",
        "https://api.example:port",
        "https://api.example/a/../b",
        "https://api.example/a//b",
        "https://api.example/%2e%2e/",
        "https://api.example/a b",
    ],
)
def test_what_is_no_base_url_is_refused(text: str) -> None:
    with pytest.raises(BadHost):
        parse_base_url(text)


def test_a_password_in_a_base_url_is_not_repeated_in_the_message() -> None:
    with pytest.raises(BadHost) as caught:
        parse_base_url("https://user:hunter2@api.example")
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.9.9.9", "::1", "localhost", "a.localhost"])
def test_loopback_is_known(host: str) -> None:
    assert is_loopback(host)


@pytest.mark.parametrize("host", ["128.0.0.1", "0.0.0.0", "::2", "localhost.example", "local"])  # noqa: S104
def test_nothing_else_is_loopback(host: str) -> None:
    assert not is_loopback(host)


def test_an_authority_has_brackets_where_needed_and_no_default_port() -> None:
    assert format_authority("https", "api.example", 443) == "api.example"
    assert format_authority("http", "api.example", 443) == "api.example:443"
    assert format_authority("http", "::1", 80) == "[::1]"
    assert format_authority("https", "::1", 8443) == "[::1]:8443"


@pytest.mark.parametrize("path", ["/", "/a", "/a/b.c", "/v1beta/openai", "/a/..b"])
def test_plain_paths(path: str) -> None:
    assert is_plain_path(path)


@pytest.mark.parametrize(
    "path", ["", "a", "/a/../b", "/./a", "/..", "//a", "/a\\b", "/%61", "/a?b"]
)
def test_paths_with_more_than_one_reading(path: str) -> None:
    assert not is_plain_path(path)


@pytest.mark.parametrize(
    ("address", "name"),
    [
        ("0.0.0.0", "unspecified"),  # noqa: S104
        ("10.255.255.255", "private"),
        ("100.64.0.1", "carrier-grade NAT"),
        ("100.100.100.200", "metadata"),
        ("127.255.0.1", "loopback"),
        ("168.63.129.16", "metadata"),
        ("169.254.0.1", "link-local"),
        ("169.254.169.254", "metadata"),
        ("172.31.0.1", "private"),
        ("192.0.2.1", "reserved"),
        ("192.168.1.1", "private"),
        ("198.18.0.1", "reserved"),
        ("224.0.0.1", "multicast"),
        ("239.1.1.1", "multicast"),
        ("240.0.0.1", "reserved"),
        ("255.255.255.255", "reserved"),
        ("::", "unspecified"),
        ("::1", "loopback"),
        ("::7f00:1", "IPv4-compatible"),
        ("::ffff:127.0.0.1", "loopback"),
        ("::ffff:8.8.8.8", "IPv4 within IPv6"),
        ("64:ff9b::7f00:1", "loopback"),
        ("64:ff9b::808:808", "IPv4 within IPv6"),
        ("64:ff9b::a9fe:a9fe", "metadata"),
        ("64:ff9b:1::a00:1", "local NAT64"),
        ("2001:0:4136:e378:8000:63bf:80ff:fffe", "loopback"),
        ("2001:db8::1", "reserved"),
        ("2002:7f00:1::", "loopback"),
        ("2002:a9fe:a9fe::1", "metadata"),
        ("fc00::1", "private"),
        ("fd00:ec2::254", "metadata"),
        ("fe80::1", "link-local"),
        ("fec0::1", "site-local"),
        ("ff02::1", "multicast"),
        ("8.8.8.8", None),
        ("2606:4700::1111", None),
    ],
)
def test_an_address_that_is_not_public_has_a_class(address: str, name: str | None) -> None:
    assert address_class(address) == name


@given(st.ip_addresses(v=4))
def test_ipv4_within_ipv6_is_never_public(inner: IPv4Address) -> None:
    for text in (f"::ffff:{inner}", f"64:ff9b::{inner}"):
        assert address_class(str(IPv6Address(text))) is not None


@pytest.mark.parametrize("path", ["/a%2bb", "/%e2%82%ac", "/a%7Eb/c"])
def test_a_path_may_hold_escapes_with_one_reading(path: str) -> None:
    assert is_escaped_path(path)
    assert not is_plain_path(path)


@pytest.mark.parametrize(
    "path", ["/a%20", "/%2e%2e/a", "/a%2fb", "/a%5cb", "/a%252e", "/a%", "/a%0a", "/%"]
)
def test_a_path_with_escapes_of_two_readings_is_not_plain(path: str) -> None:
    assert not is_escaped_path(path)


@pytest.mark.parametrize("text", ["a.*.example", "*.a.*.example", "*a.example", "**.example"])
def test_a_star_elsewhere_is_named_as_the_trouble(text: str) -> None:
    with pytest.raises(BadHost, match="stands for one whole label"):
        parse_pattern(text)


@pytest.mark.parametrize("text", ["1.2.3.4.5", "a.1", "0x1.b.1"])
def test_numbers_that_are_no_address_are_named_as_the_trouble(text: str) -> None:
    with pytest.raises(BadHost, match="neither a host name nor an IPv4 address"):
        normalise_host(text)


@pytest.mark.parametrize("text", ["[abc]", "a::1]", "[::1", "fe80::1%eth0"])
def test_brackets_and_scopes_that_make_no_address_are_refused(text: str) -> None:
    with pytest.raises(BadHost, match="is not an IPv6 address"):
        normalise_host(text)


def test_a_base_url_without_a_host_is_told_what_to_write() -> None:
    with pytest.raises(BadHost, match="write https://HOST"):
        parse_base_url("https://")


def test_a_wildcard_never_covers_an_address() -> None:
    assert not HostPattern("2.3.4", wildcard=True).matches("1.2.3.4")
    assert not HostPattern("example", wildcard=True).matches(".example")


def test_an_escaped_delete_is_not_plain() -> None:
    assert not is_escaped_path("/a%7f")

"""Hosts as values: one spelling for each, so that a rule and a request can be compared.

Pure. `normalise_host` follows the URL standard's host parser where it matters for safety: a name
whose last label is a number *is* an IPv4 address in any of `inet_aton`'s spellings, or nothing.
Sources: https://url.spec.whatwg.org/#host-parsing, RFC 5891 (IDNA), RFC 4291 §2.5.5.2.
"""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from urllib.parse import urlsplit

import idna

MAX_HOST = 253
DEFAULT_PORTS = {"http": 80, "https": 443}

# Where clouds hand out credentials to whoever asks from inside: AWS, GCP, Azure, Alibaba, Oracle.
METADATA_ADDRESSES = frozenset(
    {
        "100.100.100.200",
        "168.63.129.16",
        "169.254.169.254",
        "169.254.170.2",
        "192.0.0.192",
        "fd00:ec2::254",
    }
)

_CLASSES = tuple(
    (ipaddress.ip_network(network), name)
    for network, name in (
        ("0.0.0.0/8", "unspecified"),
        ("10.0.0.0/8", "private"),
        ("100.64.0.0/10", "carrier-grade NAT"),
        ("127.0.0.0/8", "loopback"),
        ("169.254.0.0/16", "link-local"),
        ("172.16.0.0/12", "private"),
        ("192.168.0.0/16", "private"),
        ("224.0.0.0/4", "multicast"),
        ("::/128", "unspecified"),
        ("::1/128", "loopback"),
        ("::/96", "IPv4-compatible"),
        ("64:ff9b:1::/48", "local NAT64"),
        ("fc00::/7", "private"),
        ("fe80::/10", "link-local"),
        ("fec0::/10", "site-local"),
        ("ff00::/8", "multicast"),
    )
)
# NAT64's well-known prefix: its last 32 bits are the IPv4 address that is meant.
_TRANSLATED = (ipaddress.ip_network("64:ff9b::/96"),)

_LABEL = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?")
_NUMBER = re.compile(r"0[xX][0-9a-fA-F]*|[0-9]+")
_ESCAPE = re.compile(r"%([0-9A-Fa-f]{2})")
_PATH = re.compile(r"/[A-Za-z0-9._~!$&'()*+,=:@/-]*")


class BadHost(ValueError):
    """The text is no host, or is one in a spelling that must not be guessed at."""


@dataclass(frozen=True)
class HostPattern:
    """One host, or `*.` and a suffix. The star stands for exactly one whole label."""

    text: str
    wildcard: bool = False

    def matches(self, host: str) -> bool:
        """Say whether `host`, normalised already, is covered."""
        if not self.wildcard:
            return host == self.text
        first, _, rest = host.partition(".")
        return bool(first) and rest == self.text and not is_address(host)


@dataclass(frozen=True)
class BaseUrl:
    """An upstream's address. `path` has no trailing slash and is empty for the root."""

    scheme: str
    host: str
    port: int
    path: str


def normalise_host(text: str) -> str:
    """Return the one spelling of a host: lower case, no trailing dot, A-labels, canonical IP.

    IPv6 comes back without brackets, and IPv4-mapped IPv6 as the IPv4 address that the kernel
    would connect to. BadHost for everything else.
    """
    if text.startswith("[") or ":" in text:
        return _normalise_ipv6(text)
    name = _to_ascii(text).removesuffix(".")
    if len(name) > MAX_HOST:
        raise BadHost(f"{text!r} is not a host name")
    if _NUMBER.fullmatch(name.rpartition(".")[2]):
        return _normalise_ipv4(name)
    if not all(_LABEL.fullmatch(label) for label in name.split(".")):
        raise BadHost(f"{text!r} is not a host name")
    return name


def parse_pattern(text: str) -> HostPattern:
    """Read a rule's host. BadHost for a star anywhere but as the whole first label.

    A wildcard needs two fixed labels below it: `*.com` would allow half of the world.
    """
    if "*" not in text:
        return HostPattern(normalise_host(text))
    suffix = text.removeprefix("*.")
    if "*" in suffix:
        raise BadHost(f"{text!r}: a wildcard is `*.` and a domain, and stands for one whole label")
    host = normalise_host(suffix)
    if is_address(host) or "." not in host:
        raise BadHost(f"{text!r}: a wildcard needs a domain of at least two labels")
    return HostPattern(host, wildcard=True)


def parse_base_url(text: str) -> BaseUrl:
    """Read an upstream's base URL. BadHost (with what to write instead) for any other thing.

    No user, password, query or fragment: a secret in a URL ends up in logs.
    """
    try:
        parts = urlsplit(text.strip())
        port = parts.port
    except ValueError as error:
        raise BadHost(f"{text!r} is not a base URL: {error}") from None
    if parts.scheme not in DEFAULT_PORTS or not parts.hostname:
        raise BadHost(f"{text!r} is not a base URL: write https://HOST[:PORT][/PATH]")
    if "@" in parts.netloc or parts.query or parts.fragment:
        raise BadHost("a base URL holds no user, password, query or fragment")
    host = normalise_host(_host_of(parts.netloc))
    return BaseUrl(parts.scheme, host, port or DEFAULT_PORTS[parts.scheme], _base_path(parts.path))


def is_address(host: str) -> bool:
    """Say whether a normalised host is an IP address."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def is_loopback(host: str) -> bool:
    """Say whether a normalised host means this machine itself."""
    if is_address(host):
        return ipaddress.ip_address(host).is_loopback
    return host == "localhost" or host.endswith(".localhost")


def address_class(address: str) -> str | None:
    """Name the class that keeps an address from being connected to; None for a public one.

    IPv4 within IPv6 (mapped, NAT64, 6to4, Teredo) is judged as what it hides. Sources: the IANA
    special-purpose address registries, RFC 6052, RFC 8215.
    """
    ip = ipaddress.ip_address(address)
    if str(ip) in METADATA_ADDRESSES:
        return "metadata"
    if isinstance(ip, ipaddress.IPv6Address) and (inner := _embedded_ipv4(ip)) is not None:
        return address_class(str(inner)) or "IPv4 within IPv6"
    named = (name for network, name in _CLASSES if ip in network)
    return next(named, None if ip.is_global else "reserved")


def format_authority(scheme: str, host: str, port: int) -> str:
    """Return `host[:port]` as a Host header wants it: brackets on IPv6, no default port."""
    name = f"[{host}]" if ":" in host else host
    return name if DEFAULT_PORTS.get(scheme) == port else f"{name}:{port}"


def _embedded_ipv4(ip: ipaddress.IPv6Address) -> ipaddress.IPv4Address | None:
    """Return the IPv4 address that a translator or tunnel would take out of this one."""
    if ip.ipv4_mapped or ip.sixtofour:
        return ip.ipv4_mapped or ip.sixtofour
    if ip.teredo:
        return ip.teredo[1]
    translated = any(ip in network for network in _TRANSLATED)
    return ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF) if translated else None


def _to_ascii(text: str) -> str:
    """Map to A-labels; ASCII names skip UTS 46, so that `_service` names stay possible."""
    try:
        if text.isascii():
            lowered = text.lower()
            for label in lowered.split("."):
                if label.startswith("xn--"):
                    idna.decode(label)
            return lowered
        return idna.encode(text, uts46=True, std3_rules=True).decode("ascii")
    except (idna.IDNAError, UnicodeError) as error:
        raise BadHost(f"{text!r} is not a host name: {error}") from None


def _normalise_ipv6(text: str) -> str:
    inner = text[1:-1] if text.startswith("[") and text.endswith("]") else text
    if "%" in inner:
        raise BadHost(f"{text!r} is not an IPv6 address")
    try:
        address = ipaddress.IPv6Address(inner)
    except ValueError:
        raise BadHost(f"{text!r} is not an IPv6 address") from None
    return str(address.ipv4_mapped or address)


def _normalise_ipv4(name: str) -> str:
    """Read `inet_aton`'s forms: one to four parts, decimal, octal (0…) or hexadecimal (0x…)."""
    parts = name.split(".")
    if len(parts) > 4 or not all(_NUMBER.fullmatch(part) for part in parts):
        raise BadHost(f"{name!r} is neither a host name nor an IPv4 address")
    *heads, last = (_read_number(part, name) for part in parts)
    if any(head > 255 for head in heads) or last >= 256 ** (4 - len(heads)):
        raise BadHost(f"{name!r} is not an IPv4 address")
    value = last + sum(head << (8 * (3 - place)) for place, head in enumerate(heads))
    return str(ipaddress.IPv4Address(value))


def _read_number(part: str, name: str) -> int:
    try:
        if part[:2] in ("0x", "0X"):
            return int(part[2:] or "0", 16)
        # Twelve digits hold every 32-bit number in octal; longer ones only cost time.
        if len(part.lstrip("0")) > 12:
            raise BadHost(f"{name!r} is not an IPv4 address")
        return int(part, 8 if part.startswith("0") else 10)
    except ValueError as error:
        raise BadHost(f"{name!r} is not an IPv4 address") from error


def _host_of(netloc: str) -> str:
    """Return the host of a netloc as written (urlsplit's hostname lower-cases and unbrackets)."""
    if netloc.startswith("["):
        return netloc.partition("]")[0] + "]"
    return netloc.partition(":")[0]


def _base_path(path: str) -> str:
    cleaned = path.rstrip("/")
    if cleaned and not is_plain_path(cleaned):
        raise BadHost(f"{path!r} is not a base path: plain segments only")
    return cleaned


def is_plain_path(path: str) -> bool:
    """Say whether a path has one reading only: no escapes, empty or dot segments, backslashes."""
    if not _PATH.fullmatch(path) or "//" in path:
        return False
    return not {".", ".."} & set(path.split("/"))


def is_escaped_path(path: str) -> bool:
    """Say whether a path is plain once its escapes are: `%2b` is, an escaped `/` or `.` is not."""
    return is_plain_path(_ESCAPE.sub(_plain_escape, path))


def _plain_escape(found: re.Match[str]) -> str:
    """Return a harmless letter for a harmless escape, else what no plain path holds."""
    value = int(found[1], 16)
    return "%" if value < 0x21 or value == 0x7F or chr(value) in "./\\%" else "x"

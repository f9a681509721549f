"""What a bake takes from the host: registries as its own tools know them, and trusted certificates.

No registry's name is in this code. pip's come from pip's configuration, apt's from apt's, npm's
from npm's; where the host says nothing, the tools' own defaults hold. The translations are pure;
`collect` runs the tools.
"""

from __future__ import annotations

import ast
import base64
import binascii
import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from urllib.parse import urlsplit

TOOL_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

# Where distributions keep the bundle that their tools trust; the first that exists is used.
SYSTEM_CA_BUNDLES = (
    Path("/etc/ssl/certs/ca-certificates.crt"),  # Debian, Ubuntu, Arch, Alpine
    Path("/etc/pki/tls/certs/ca-bundle.crt"),  # Fedora, RHEL
    Path("/etc/ssl/ca-bundle.pem"),  # openSUSE
    Path("/etc/ssl/cert.pem"),
)

_PROXY_NAMES = ("http_proxy", "https_proxy", "ftp_proxy", "all_proxy", "no_proxy")
_REMOTE_SCHEMES = frozenset({"http", "https"})

# pip's settings that say where packages come from; `cert` is ours, the rest has no meaning inside.
_PIP_URLS = ("index-url", "extra-index-url", "find-links")
_PIP_WORDS = ("trusted-host", "proxy", "timeout", "retries", "no-index")
# Lowest first: https://pip.pypa.io/en/stable/topics/configuration/#precedence-override-order
_PIP_SECTIONS = ("global", "install", ":env:")

_PEM = re.compile(
    r"-----BEGIN (?:TRUSTED )?CERTIFICATE-----\s*([A-Za-z0-9+/=\s]+?)-----END", re.ASCII
)


class HostError(Exception):
    """The host's own configuration cannot be used; the message says which file and why."""


@dataclass(frozen=True)
class Certificates:
    """Certificates by SHA-256 fingerprint of their DER form; order and duplicates mean nothing."""

    der_by_fingerprint: Mapping[str, bytes]

    @property
    def digest(self) -> str:
        """Names the set."""
        return hashlib.sha256("\n".join(sorted(self.der_by_fingerprint)).encode()).hexdigest()

    def without(self, other: Certificates) -> Certificates:
        """Those that `other` does not have."""
        mine, theirs = self.der_by_fingerprint, other.der_by_fingerprint
        return Certificates({key: der for key, der in mine.items() if key not in theirs})


@dataclass(frozen=True)
class HostConfig:
    """What the tools on this host are configured with.

    `apt_sources` is empty when the host has no sources of the wanted suite. Addresses may carry
    credentials, so these values go into files and environments of the bake's tools, never into
    arguments, logs or the template.
    """

    apt_sources: tuple[str, ...] = ()
    pip: tuple[tuple[str, str], ...] = ()
    npm: tuple[tuple[str, str], ...] = ()
    proxies: tuple[tuple[str, str], ...] = ()


def architecture() -> str:
    """The machine's architecture, as the kernel names it."""
    return platform.machine()


def collect(suite: str, environ: Mapping[str, str] | None = None) -> HostConfig:
    """Ask apt and pip on this host; a tool that is missing or fails leaves its own defaults."""
    environ = os.environ if environ is None else environ
    proxies = {**apt_proxies(_apt_config()), **env_proxies(environ)}
    return replace(
        collect_tools(environ),
        apt_sources=_host_apt_sources(suite),
        proxies=tuple(sorted(proxies.items())),
    )


def collect_tools(
    environ: Mapping[str, str] | None = None, tools: Collection[str] = ("npm", "pip")
) -> HostConfig:
    """Ask pip and npm alone: where a machine's set-up may fetch from. Each takes half a second."""
    environ = os.environ if environ is None else environ
    pip = translate_pip(_pip_config(environ)) if "pip" in tools else {}
    npm = translate_npm(_npm_config(environ)) if "npm" in tools else {}
    return HostConfig(pip=tuple(sorted(pip.items())), npm=tuple(sorted(npm.items())))


def read_certificates(ca_bundle: Path | None = None) -> Certificates:
    """The system's trusted certificates and the operator's. `HostError` if that one is bad."""
    found: dict[str, bytes] = {}
    system = next((path for path in SYSTEM_CA_BUNDLES if path.is_file()), None)
    for path in (system, ca_bundle):
        if path is not None:
            found.update(_read_bundle(path).der_by_fingerprint)
    return Certificates(found)


@lru_cache(maxsize=4)
def parse_certificates(text: str) -> Certificates:
    """Every certificate of a PEM file; text between them is ignored.

    Remembered: a system trusts a hundred and more, and every run's template is found by them.
    """
    found: dict[str, bytes] = {}
    for block in _PEM.findall(text):
        try:
            der = base64.b64decode("".join(block.split()), validate=True)
        except binascii.Error as error:
            raise HostError(f"a certificate is not base64: {error}") from error
        found[hashlib.sha256(der).hexdigest()] = der
    return Certificates(MappingProxyType(found))


def to_pem(der: bytes) -> str:
    """One certificate as PEM with lines of 64 characters."""
    body = base64.encodebytes(der).decode().replace("\n", "")
    lines = [body[i : i + 64] for i in range(0, len(body), 64)]
    return "\n".join(["-----BEGIN CERTIFICATE-----", *lines, "-----END CERTIFICATE-----", ""])


def translate_pip(listing: str) -> dict[str, str]:
    """`pip config list` → what pip inside the machine is told.

    Only settings that say where packages come from are taken, local files and folders are dropped
    (they do not exist inside), the environment wins over `[install]`, and that over `[global]`.
    """
    settings: dict[str, str] = {}
    for section in _PIP_SECTIONS:
        settings.update(_pip_section(listing, section))
    return settings


def pip_config_file(settings: Iterable[tuple[str, str]]) -> str:
    """The same as a pip configuration file."""
    lines = ["[global]"]
    for key, value in settings:
        lines.append(f"{key} =" + "".join(f"\n    {word}" for word in value.split()))
    return "\n".join(lines) + "\n"


def translate_apt(listing: str, suite: str) -> tuple[str, ...]:
    """Lines of `repo|release|component|origin` → one-line sources of that Debian suite.

    Empty when the suite itself is not among them, because its updates alone make no system. What
    another vendor publishes under the suite's name is not Debian and is left out.
    """
    wanted = (suite, f"{suite}-updates", f"{suite}-security")
    components: dict[tuple[int, str, str], dict[str, None]] = {}
    for uri, release, component, origin in _apt_rows(listing):
        if release in wanted and component and origin in {"Debian", "$(ORIGIN)"}:
            row = (wanted.index(release), uri, release)
            components.setdefault(row, {})[component] = None
    if not any(release == suite for _, _, release in components):
        return ()
    return tuple(
        f"deb {uri} {release} {' '.join(sorted(found))}"
        for (_, uri, release), found in sorted(components.items())
    )


def translate_npm(listing: str) -> dict[str, str]:
    """`npm config list --json` → `registry` and every `@scope:registry` that is an address."""
    try:
        values = json.loads(listing)
    except ValueError:
        return {}
    return {
        key: value
        for key, value in (values.items() if isinstance(values, dict) else ())
        if (key == "registry" or (key.startswith("@") and key.endswith(":registry")))
        and isinstance(value, str)
        and urlsplit(value).scheme in _REMOTE_SCHEMES
    }


def apt_proxies(dump: str) -> dict[str, str]:
    """`apt-config dump` → proxy variables; per-host exceptions are apt's own business."""
    found = {}
    for scheme in ("http", "https"):
        match = re.search(rf'^Acquire::{scheme}::Proxy "([^"]+)";$', dump, re.MULTILINE)
        if match and match[1] != "DIRECT":
            found[f"{scheme}_proxy"] = match[1]
    return found


def env_proxies(environ: Mapping[str, str]) -> dict[str, str]:
    """The proxy variables of an environment, in lower case, which every tool reads."""
    found = {}
    for name in _PROXY_NAMES:
        value = environ.get(name) or environ.get(name.upper())
        if value:
            found[name] = value
    return found


def find_tool(name: str) -> str | None:
    """Absolute path of a host program, looked up on a fixed PATH."""
    return shutil.which(name, path=TOOL_PATH)


def _read_bundle(path: Path) -> Certificates:
    try:
        certificates = parse_certificates(path.read_text(encoding="utf-8", errors="replace"))
    except (OSError, HostError) as error:
        raise HostError(f"cannot read the CA bundle {path}: {error}") from error
    if not certificates.der_by_fingerprint:
        raise HostError(f"the CA bundle {path} holds no PEM certificate")
    return certificates


def _pip_section(listing: str, section: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for line in listing.splitlines():
        name, _, value = line.partition("=")
        if not name.startswith(f"{section}."):
            continue
        key = name.removeprefix(f"{section}.").replace("_", "-").removeprefix("default-")
        kept = _pip_value(key, _unquote(value))
        if kept:
            found[key] = kept
    return found


def _pip_value(key: str, value: str) -> str:
    """The part of a setting that means something inside; "" when nothing does."""
    if key in _PIP_URLS:
        return " ".join(word for word in value.split() if urlsplit(word).scheme in _REMOTE_SCHEMES)
    return " ".join(value.split()) if key in _PIP_WORDS else ""


def _unquote(value: str) -> str:
    try:
        return str(ast.literal_eval(value))
    except (ValueError, SyntaxError):
        return value


def _apt_rows(listing: str) -> Iterable[Sequence[str]]:
    for line in listing.splitlines():
        row = line.split("|")
        if len(row) == 4 and urlsplit(row[0]).scheme in _REMOTE_SCHEMES:
            yield row


def _host_apt_sources(suite: str) -> tuple[str, ...]:
    """Prefer what apt has release files for (it knows the origin), else what is configured."""
    for extra in ((), ("--no-release-info",)):
        listing = _output(
            "apt-get",
            "indextargets",
            *extra,
            "--format",
            "$(REPO_URI)|$(RELEASE)|$(COMPONENT)|$(ORIGIN)",
            "Created-By: Packages",
        )
        sources = translate_apt(listing, suite)
        if sources:
            return sources
    return ()


def _apt_config() -> str:
    return _output("apt-config", "dump")


def _pip_config(environ: Mapping[str, str]) -> str:
    names = {"HOME", "XDG_CONFIG_HOME", "XDG_CONFIG_DIRS"}
    env = {key: value for key, value in environ.items() if key in names or key.startswith("PIP_")}
    own = _output(sys.executable, "-m", "pip", "config", "list", env=env)
    return own or _output("pip3", "config", "list", env=env)


def _npm_config(environ: Mapping[str, str]) -> str:
    kept = {
        key: value
        for key, value in environ.items()
        if key in {"HOME", "XDG_CONFIG_HOME"} or key.lower().startswith("npm_config_")
    }
    return _output("npm", "config", "list", "--json", env=kept)


def _output(program: str, *args: str, env: Mapping[str, str] | None = None) -> str:
    """Standard output of a tool that only reports; "" when it is missing or fails."""
    path = find_tool(program) if "/" not in program else program
    if path is None:
        return ""
    try:
        done = subprocess.run(
            [path, *args],
            env={"PATH": TOOL_PATH, "LC_ALL": "C.UTF-8", **(env or {})},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=60,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.decode("utf-8", "replace") if done.returncode == 0 else ""

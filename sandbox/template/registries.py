"""Where package tools fetch from: read out of the tools in a template, and of this host's own.

No registry's name is in this code. What the host's tools are configured with (a company's mirror)
wins, and is what the tools inside are told; where the host says nothing, the tools in the template
know their own defaults. Passwords in addresses stay outside: a machine holds none.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

from sandbox.template.host import HostConfig

_PIP_INDEX = "usr/lib/python3*/**/pip/_internal/models/index.py"
_NPM_HOMES = (
    "usr/share/nodejs/@npmcli/config",
    "usr/share/nodejs/npm",
    "usr/lib/node_modules/npm/node_modules/@npmcli/config",
    "usr/local/lib/node_modules/npm/node_modules/@npmcli/config",
)
_NPM_DEFINITIONS = (
    "lib/definitions/definitions.js",
    "lib/definitions.js",
    "lib/utils/config/definitions.js",
)
# The definition of npm's setting `registry`, old and new spelling, down to its default.
_NPM_DEFAULT = re.compile(
    r"(?:define\('registry',|\bregistry: new Definition\('registry',)"
    r"\s*\{\s*default: ['`](\S+?)['`],"
)
_APT_LINE = re.compile(r"^deb(?:-src)?\s+(?:\[[^\]]*\]\s+)?(\S+)\s", re.MULTILINE)
_APT_URIS = re.compile(r"^URIs:(.*(?:\n[ \t].*)*)", re.MULTILINE | re.IGNORECASE)
_SCHEMES = ("http", "https")


@dataclass(frozen=True)
class Registry:
    """One tool's: `urls` that it fetches from, and `env`, what the tool inside is told.

    `trouble` says what will not work, for the operator: an address that needs a password.
    """

    tool: str
    urls: tuple[str, ...]
    env: tuple[tuple[str, str], ...] = ()
    trouble: str = ""


def find_registries(rootfs: Path, host: HostConfig) -> tuple[Registry, ...]:
    """Return the registries of the tools that a template has, by tool's name."""
    found = (_apt(rootfs), _npm(rootfs, host), _pip(rootfs, host))
    return tuple(each for each in found if each is not None)


def _apt(rootfs: Path) -> Registry | None:
    texts = [_read(path) for path in _apt_files(rootfs)]
    lines = [uri for text in texts for uri in _APT_LINE.findall(text)]
    stanzas = [uri for text in texts for block in _APT_URIS.findall(text) for uri in block.split()]
    return _registry("apt", [*lines, *stanzas], {})


def _apt_files(rootfs: Path) -> list[Path]:
    etc = rootfs / "etc" / "apt"
    folder = etc / "sources.list.d"
    return [etc / "sources.list", *sorted(folder.glob("*.list")), *sorted(folder.glob("*.sources"))]


def _pip(rootfs: Path, host: HostConfig) -> Registry | None:
    index, files = _pip_default(rootfs)
    if not index:
        return None
    own = dict(host.pip)
    given = own.get("index-url", "").split()
    extra = own.get("extra-index-url", "").split()
    links = own.get("find-links", "").split()
    indexes = given or [index]
    # The default index keeps its files on another host; a mirror keeps them on its own.
    beside = [files] if any(_host(url) == _host(index) for url in (*indexes, *extra)) else []
    env = {
        "PIP_INDEX_URL": given,
        "PIP_EXTRA_INDEX_URL": extra,
        "PIP_FIND_LINKS": links,
        "PIP_TRUSTED_HOST": own.get("trusted-host", "").split(),
    }
    return _registry("pip", [*indexes, *extra, *links, *beside], env)


def _pip_default(rootfs: Path) -> tuple[str, str]:
    """Return pip's own index and the address of its files, out of pip's source; "" without pip."""
    for path in sorted(rootfs.glob(_PIP_INDEX)):
        for node in ast.walk(ast.parse(_read(path) or "")):
            if isinstance(node, ast.Assign) and _names(node) == ["PyPI"]:
                call = node.value
                values = [each.value for each in ast.walk(call) if isinstance(each, ast.Constant)]
                index, files = (str(value) for value in values)
                return index, f"https://{files}/"
    return "", ""


def _names(node: ast.Assign) -> list[str]:
    return [target.id for target in node.targets if isinstance(target, ast.Name)]


def _npm(rootfs: Path, host: HostConfig) -> Registry | None:
    default = _npm_default(rootfs)
    if not default:
        return None
    own = dict(host.npm)
    given = own.pop("registry", "")
    env = {f"npm_config_{key}": [url] for key, url in own.items()}
    env["npm_config_registry"] = [given] if given else []
    return _registry("npm", [given or default, *own.values()], env)


def _npm_default(rootfs: Path) -> str:
    for home in _NPM_HOMES:
        for name in _NPM_DEFINITIONS:
            if found := _NPM_DEFAULT.search(_read(rootfs / home / name)):
                return found[1]
    return ""


def _registry(tool: str, urls: Iterable[str], env: Mapping[str, Iterable[str]]) -> Registry | None:
    given = [url for url in urls if urlsplit(url).scheme in _SCHEMES]
    secret = next((_host(url) for url in given if "@" in urlsplit(url).netloc), "")
    told = {name: " ".join(_open(word) for word in words) for name, words in env.items()}
    if not given:
        return None
    return Registry(
        tool=tool,
        urls=tuple(dict.fromkeys(_open(url) for url in given)),
        env=tuple(sorted((name, value) for name, value in told.items() if value)),
        trouble=f"{secret} wants a password, which a machine is not given" if secret else "",
    )


def _open(url: str) -> str:
    """Return an address without its user part."""
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))


def _host(url: str) -> str:
    return urlsplit(url).hostname or ""


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""

from __future__ import annotations

from pathlib import Path

import pytest

from sandbox.template.host import HostConfig, translate_npm
from sandbox.template.registries import Registry, find_registries

PIP = """
PyPI = PackageIndex("https://index.example/", file_storage_domain="files.example")
TestPyPI = PackageIndex("https://test.example/", file_storage_domain="test-files.example")
"""
NPM_OLD = "define('registry', {\n  default: `https://npm.example/`,\n  type: url,"
NPM_NEW = "  registry: new Definition('registry', {\n    default: 'https://npm.example/',\n"


def write(rootfs: Path, path: str, text: str) -> None:
    (rootfs / path).parent.mkdir(parents=True, exist_ok=True)
    (rootfs / path).write_text(text)


@pytest.fixture
def rootfs(tmp_path: Path) -> Path:
    write(tmp_path, "usr/lib/python3/dist-packages/pip/_internal/models/index.py", PIP)
    return tmp_path


def one(rootfs: Path, **host: tuple[tuple[str, str], ...]) -> Registry:
    (found,) = find_registries(rootfs, HostConfig(**host))
    return found


def test_a_template_without_tools_has_no_registries(tmp_path: Path) -> None:
    assert find_registries(tmp_path, HostConfig()) == ()


def test_pips_own_default_comes_with_the_host_of_its_files(rootfs: Path) -> None:
    found = one(rootfs)
    assert found.urls == ("https://index.example/", "https://files.example/")
    assert found.env == ()


def test_a_mirror_takes_the_defaults_place(rootfs: Path) -> None:
    found = one(rootfs, pip=(("index-url", "https://mirror.example/simple"),))
    assert found.urls == ("https://mirror.example/simple",)
    assert dict(found.env) == {"PIP_INDEX_URL": "https://mirror.example/simple"}


def test_more_indexes_and_links_are_open_and_told(rootfs: Path) -> None:
    found = one(
        rootfs,
        pip=(
            ("extra-index-url", "https://a.example/s http://b.example/s"),
            ("find-links", "https://c.example/w"),
            ("trusted-host", "b.example"),
        ),
    )
    assert found.urls == (
        "https://index.example/",
        "https://a.example/s",
        "http://b.example/s",
        "https://c.example/w",
        "https://files.example/",
    )
    assert dict(found.env) == {
        "PIP_EXTRA_INDEX_URL": "https://a.example/s http://b.example/s",
        "PIP_FIND_LINKS": "https://c.example/w",
        "PIP_TRUSTED_HOST": "b.example",
    }


def test_a_password_stays_outside_and_the_operator_is_told(rootfs: Path) -> None:
    found = one(rootfs, pip=(("index-url", "https://me:secret@mirror.example/simple"),))
    assert "secret" not in str(found)
    assert found.urls == ("https://mirror.example/simple",)
    assert found.trouble == "mirror.example wants a password, which a machine is not given"


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("usr/share/nodejs/@npmcli/config/lib/definitions/definitions.js", NPM_OLD),
        (
            "usr/lib/node_modules/npm/node_modules/@npmcli/config/lib/definitions/definitions.js",
            NPM_NEW,
        ),
    ],
)
def test_npms_own_default_is_found_in_either_spelling(tmp_path: Path, path: str, text: str) -> None:
    write(tmp_path, path, text)
    assert one(tmp_path).urls == ("https://npm.example/",)


def test_npms_registries_by_scope_are_open_and_told(tmp_path: Path) -> None:
    write(tmp_path, "usr/share/nodejs/@npmcli/config/lib/definitions.js", NPM_OLD)
    found = one(
        tmp_path,
        npm=(("@us:registry", "https://ours.example/"), ("registry", "https://mirror.example/")),
    )
    assert found.urls == ("https://mirror.example/", "https://ours.example/")
    assert dict(found.env) == {
        "npm_config_@us:registry": "https://ours.example/",
        "npm_config_registry": "https://mirror.example/",
    }


def test_apts_sources_are_read_in_both_forms(tmp_path: Path) -> None:
    write(
        tmp_path,
        "etc/apt/sources.list",
        "# deb http://not.example/ x main\ndeb [signed-by=/k] http://a.example/debian x main\n",
    )
    write(
        tmp_path,
        "etc/apt/sources.list.d/b.sources",
        "Types: deb\nURIs: https://b.example/x\n  http://c.example/y\nSuites: x\n",
    )
    write(tmp_path, "etc/apt/sources.list.d/c.list", "deb file:/local x main\n")
    assert one(tmp_path).urls == (
        "http://a.example/debian",
        "https://b.example/x",
        "http://c.example/y",
    )


@pytest.mark.parametrize(
    ("listing", "found"),
    [
        ('{"registry": "https://a.example/", "@b:registry": "https://b.example/"}', 2),
        ('{"registry": 5, "prefix": "https://a.example/"}', 0),
        ('{"registry": "file:///x"}', 0),
        ("[]", 0),
        ("not json", 0),
    ],
)
def test_npms_listing_is_read_for_addresses_alone(listing: str, found: int) -> None:
    assert len(translate_npm(listing)) == found

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from app.repo_config import EgressWish
from app.settings import Settings, SettingsError
from egress.policy import Grant, GrantKind, Phase
from workers.grants import Egress, check_egress, narrow, operator_egress

PIP = 'PyPI = PackageIndex("https://index.example/", file_storage_domain="files.example")\n'


@pytest.fixture
def rootfs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A template with pip and apt, on a host whose own pip says nothing."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    for name in ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_FIND_LINKS"):
        monkeypatch.delenv(name, raising=False)
    pip = tmp_path / "usr/lib/python3/dist-packages/pip/_internal/models/index.py"
    pip.parent.mkdir(parents=True)
    pip.write_text(PIP)
    (tmp_path / "etc/apt").mkdir(parents=True)
    (tmp_path / "etc/apt/sources.list").write_text(
        "deb http://deb.example/debian x main\ndeb http://deb.example/security x main\n"
    )
    return tmp_path


def made(rootfs: Path, **settings: Any) -> Egress:
    return operator_egress(Settings(**settings), rootfs)


def by_name(egress: Egress) -> dict[str, Grant]:
    return {grant.name: grant for grant in egress.grants}


def test_registries_become_grants_for_the_set_up_alone(rootfs: Path) -> None:
    grants = by_name(made(rootfs))
    assert set(grants) == {"apt", "apt.2", "pip", "pip.2"}
    assert all(grant.phases == {Phase.SETUP} for grant in grants.values())
    assert all(grant.kind is GrantKind.TUNNEL and not grant.private for grant in grants.values())
    pip, apt = grants["pip"], grants["apt.2"]
    assert (pip.scheme, pip.host, pip.port) == ("https", "index.example", 443)
    assert (apt.scheme, apt.port, apt.path_prefix) == ("http", 80, "/security")
    assert apt.methods == {"GET", "HEAD"}


def test_the_operator_chooses_tools_and_phases(rootfs: Path) -> None:
    egress = made(rootfs, registries="pip", registry_phases="setup, verify")
    assert set(by_name(egress)) == {"pip", "pip.2"}
    assert egress.grants[0].phases == {Phase.SETUP, Phase.VERIFY}
    assert made(rootfs, registries="").grants == ()


@pytest.mark.parametrize(
    ("text", "scheme", "host", "port", "path", "phases"),
    [
        ("API.example", "https", "api.example", 443, "/", {"setup"}),
        ("https://api.example:8443", "https", "api.example", 8443, "/", {"setup"}),
        ("*.api.example agent verify", "https", "*.api.example", 443, "/", {"agent", "verify"}),
        ("http://m.example/debian/ setup", "http", "m.example", 80, "/debian", {"setup"}),
        ("http://10.0.0.1:8080", "http", "10.0.0.1", 8080, "/", {"setup"}),
        ("http://[2001:DB8::1]", "http", "2001:db8::1", 80, "/", {"setup"}),
    ],
)
def test_a_listed_host_is_read_in_many_forms(
    rootfs: Path, text: str, scheme: str, host: str, port: int, path: str, phases: set[str]
) -> None:
    (grant,) = made(rootfs, registries="", allowed_hosts=text).grants
    assert (grant.scheme, grant.host, grant.port, grant.path_prefix) == (scheme, host, port, path)
    assert grant.phases == phases


@pytest.mark.parametrize(
    "text",
    [
        "*",
        "*.com",
        "a.*.example",
        "ftp://a.example",
        "https://a.example/path",
        "a.example:port",
        "10.0.0.1",
        "a.example lunch",
        "http://a.example/../x",
        "user@a.example",
    ],
)
def test_a_wrong_rule_stops_the_start(text: str) -> None:
    with pytest.raises(SettingsError):
        check_egress(Settings(allowed_hosts=(text,)))


def test_a_wrong_private_host_stops_the_start() -> None:
    with pytest.raises(SettingsError):
        check_egress(Settings(allowed_private_hosts=("*",)))


def test_hosts_that_the_operator_lists_may_be_private(rootfs: Path) -> None:
    egress = made(
        rootfs,
        allowed_hosts="*.corp.example, a.other.example, b.example",
        allowed_private_hosts="index.example, *.corp.example, *.other.example",
    )
    private = {grant.host for grant in egress.grants if grant.private}
    assert private == {"index.example", "*.corp.example", "a.other.example"}


def test_tools_are_told_the_way_out_where_there_is_one(rootfs: Path) -> None:
    egress = made(rootfs, pinned_only=True)
    told = egress.environment(Phase.SETUP)
    assert told["HTTPS_PROXY"] == told["http_proxy"] == "http://127.0.0.1:3128"
    assert told["NO_PROXY"] == "localhost,127.0.0.1"
    assert told["PIP_REQUIRE_HASHES"] == "1"
    assert egress.environment(Phase.AGENT) == {}
    assert "PIP_REQUIRE_HASHES" not in made(rootfs).environment(Phase.SETUP)


def test_a_repository_leaves_out_what_it_does_not_need(rootfs: Path) -> None:
    egress = made(rootfs, allowed_hosts="a.example, b.example")

    def kept(**wish: Any) -> set[str]:
        narrowed = narrow(egress, EgressWish(**wish))
        assert isinstance(narrowed, Egress)
        assert set(narrowed.grants) <= set(egress.grants)
        return set(by_name(narrowed))

    assert narrow(egress, None) is egress
    assert kept() == {"apt", "apt.2", "pip", "pip.2", "host.1", "host.2"}
    assert kept(registries=("pip",)) == {"pip", "pip.2", "host.1", "host.2"}
    assert kept(registries=(), hosts=("b.example",)) == {"host.2"}
    assert kept(registries=(), hosts=()) == set()


@pytest.mark.parametrize(
    "wish", [{"registries": ("npm",)}, {"hosts": ("c.example",)}, {"registries": ("host",)}]
)
def test_a_repository_cannot_ask_for_more(rootfs: Path, wish: dict[str, Any]) -> None:
    said = narrow(made(rootfs, allowed_hosts="a.example"), EgressWish(**wish))
    assert isinstance(said, str)
    assert "is not open on this host" in said

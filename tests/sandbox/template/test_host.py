from __future__ import annotations

import ssl
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox.template import host
from sandbox.template.host import (
    Certificates,
    HostError,
    apt_proxies,
    collect,
    env_proxies,
    parse_certificates,
    pip_config_file,
    read_certificates,
    to_pem,
    translate_apt,
    translate_pip,
)

MIRROR = "https://mirror.invalid/debian/"


@pytest.mark.parametrize(
    ("listing", "expected"),
    [
        ("", {}),
        ("global.index-url='https://mirror.invalid/simple'", "https://mirror.invalid/simple"),
        ("global.index-url='file:///srv/simple'", {}),
        (
            "global.extra-index-url='file:///srv/a https://mirror.invalid/b'",
            {"extra-index-url": "https://mirror.invalid/b"},
        ),
        ("global.find-links='/opt/wheels'", {}),
        (
            "global.find-links='/opt/wheels\\nhttps://mirror.invalid/w'",
            {"find-links": "https://mirror.invalid/w"},
        ),
        (":env:.trusted-host='mirror.invalid'", {"trusted-host": "mirror.invalid"}),
        (":env:.default-timeout='180'", {"timeout": "180"}),
        ("global.cert='/etc/ssl/x.pem'\nglobal.constraint='/etc/c.txt'", {}),
        ("user.name='x'\nnonsense\n=\n", {}),
    ],
)
def test_of_pips_settings_only_reachable_registries_are_taken(
    listing: str, expected: dict[str, str] | str
) -> None:
    if isinstance(expected, str):
        expected = {"index-url": expected}
    assert translate_pip(listing) == expected


def test_pips_environment_wins_over_install_and_install_over_global() -> None:
    lines = [f"{s}.index-url='https://{i}.invalid/'" for i, s in enumerate(("global", "install"))]
    assert translate_pip("\n".join(lines)) == {"index-url": "https://1.invalid/"}
    assert translate_pip("\n".join([":env:.index-url='https://2.invalid/'", *lines])) == {
        "index-url": "https://2.invalid/"
    }


def test_pips_configuration_file_holds_one_word_a_line() -> None:
    text = pip_config_file([("extra-index-url", "https://a.invalid https://b.invalid")])
    assert text == "[global]\nextra-index-url =\n    https://a.invalid\n    https://b.invalid\n"


@given(st.text(max_size=300))
def test_no_listing_breaks_the_translations(text: str) -> None:
    for value in translate_pip(text).values():
        assert "file:" not in value
    translate_apt(text, "bookworm")
    apt_proxies(text)


def rows(*items: tuple[str, str, str, str]) -> str:
    return "\n".join("|".join(item) for item in items)


def test_apts_sources_of_the_suite_come_with_updates_and_security_in_order() -> None:
    listing = rows(
        ("https://security.invalid/", "bookworm-security", "main", "Debian"),
        (MIRROR, "bookworm-updates", "main", "Debian"),
        (MIRROR, "bookworm", "main", "Debian"),
        (MIRROR, "bookworm", "main", "Debian"),
        (MIRROR, "bookworm", "contrib", "Debian"),
        (MIRROR, "trixie", "main", "Debian"),
    )
    assert translate_apt(listing, "bookworm") == (
        f"deb {MIRROR} bookworm contrib main",
        f"deb {MIRROR} bookworm-updates main",
        "deb https://security.invalid/ bookworm-security main",
    )


@pytest.mark.parametrize(
    "listing",
    [
        rows((MIRROR, "bookworm-updates", "main", "Debian")),
        rows((MIRROR, "noble", "main", "Ubuntu")),
        rows(("file:/srv/debian/", "bookworm", "main", "Debian")),
        rows(("cdrom://disc/", "bookworm", "main", "Debian")),
        rows(("https://vendor.invalid/", "bookworm", "stable", "Vendor")),
        rows((MIRROR, "bookworm", "", "Debian")),
    ],
)
def test_without_usable_sources_of_the_suite_the_tools_default_holds(listing: str) -> None:
    assert translate_apt(listing, "bookworm") == ()


def test_sources_count_before_apt_has_fetched_their_release_files() -> None:
    listing = rows((MIRROR, "bookworm", "main", "$(ORIGIN)"))
    assert translate_apt(listing, "bookworm") == (f"deb {MIRROR} bookworm main",)


def test_proxies_are_taken_from_apt_and_from_the_environment() -> None:
    dump = 'Acquire::http::Proxy "http://proxy.invalid:3128";\nAcquire::https::Proxy "DIRECT";\n'
    assert apt_proxies(dump) == {"http_proxy": "http://proxy.invalid:3128"}
    environ = {"HTTPS_PROXY": "http://p.invalid", "no_proxy": "localhost", "PATH": "/bin"}
    assert env_proxies(environ) == {"https_proxy": "http://p.invalid", "no_proxy": "localhost"}


def test_collecting_reads_pips_settings_from_the_given_environment_only() -> None:
    config = collect("no-such-suite", {"PIP_INDEX_URL": "https://mirror.invalid/simple"})
    assert config.apt_sources == ()
    assert dict(config.pip)["index-url"] == "https://mirror.invalid/simple"


def test_a_host_without_the_tools_leaves_their_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "find_tool", lambda _name: None)
    monkeypatch.setattr(sys, "executable", "/nonexistent/python")
    assert collect("bookworm", {}) == host.HostConfig()


def fake_der(seed: int) -> bytes:
    return bytes([seed]) * 100


def pem(*seeds: int) -> str:
    return "# a comment\n" + "\n".join(to_pem(fake_der(seed)) for seed in seeds)


def test_certificates_are_a_set() -> None:
    assert parse_certificates(pem(1, 2)).digest == parse_certificates(pem(2, 1, 2)).digest
    assert parse_certificates(pem(1)).digest != parse_certificates(pem(1, 2)).digest


def test_pem_survives_the_round_trip_and_is_what_the_ssl_module_writes() -> None:
    assert ssl.PEM_cert_to_DER_cert(to_pem(fake_der(7))) == fake_der(7)
    assert to_pem(fake_der(7)) == ssl.DER_cert_to_PEM_cert(fake_der(7))


def test_only_the_certificates_that_the_image_lacks_are_added() -> None:
    extra = parse_certificates(pem(1, 2, 3)).without(parse_certificates(pem(2)))
    assert set(extra.der_by_fingerprint.values()) == {fake_der(1), fake_der(3)}


def test_the_operators_bundle_joins_the_systems(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    system, operator = tmp_path / "system.pem", tmp_path / "operator.pem"
    system.write_text(pem(1))
    operator.write_text(pem(2))
    monkeypatch.setattr(host, "SYSTEM_CA_BUNDLES", (tmp_path / "absent", system))
    assert len(read_certificates(operator).der_by_fingerprint) == 2
    assert len(read_certificates().der_by_fingerprint) == 1


def test_a_host_without_a_bundle_has_no_certificates(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "SYSTEM_CA_BUNDLES", ())
    assert read_certificates() == Certificates({})


@pytest.mark.parametrize(
    "text",
    ["", "no certificate", "-----BEGIN CERTIFICATE-----\nAAA\n-----END CERTIFICATE-----\n"],
)
def test_an_operators_bundle_without_certificates_is_refused_by_its_name(
    text: str, tmp_path: Path
) -> None:
    path = tmp_path / "company.pem"
    path.write_text(text)
    with pytest.raises(HostError, match=r"company\.pem"):
        read_certificates(path)


def test_an_operators_bundle_that_is_missing_is_refused_by_its_name(tmp_path: Path) -> None:
    with pytest.raises(HostError, match=r"absent\.pem"):
        read_certificates(tmp_path / "absent.pem")

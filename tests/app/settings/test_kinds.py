from __future__ import annotations

from pathlib import Path

import pytest

from app.settings import load_settings
from tests.app.settings.helpers import problems, write


def test_lists_may_be_written_with_commas_or_as_toml_lists(tmp_path: Path) -> None:
    path = write(tmp_path / "d.toml", 'allowed_bots = ["a[bot]", "b[bot]"]')
    settings = load_settings(path, {"DRYDOCK_PLAIN_HTTP_HOSTS": "one, two"})
    assert settings.allowed_bots == ("a[bot]", "b[bot]")
    assert settings.plain_http_hosts == ("one", "two")


@pytest.mark.parametrize("url", ["github.example", "https://u:p@host/", "https://a b/"])
def test_an_address_must_have_a_scheme_and_no_credentials(url: str) -> None:
    assert "DRYDOCK_GITHUB_URL: must" in problems({"DRYDOCK_GITHUB_URL": url})[0]


def test_a_trailing_slash_of_an_address_is_dropped() -> None:
    settings = load_settings(env={"DRYDOCK_GITHUB_API_URL": "http://127.0.0.1:9/api/v3/"})
    assert settings.github_api_url == "http://127.0.0.1:9/api/v3"

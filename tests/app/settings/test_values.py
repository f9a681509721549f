from __future__ import annotations

import pytest

from app.settings import SECRET_FIELDS, Settings, github_problems, load_settings, variable
from tests.app.settings.helpers import problems


def test_nothing_set_gives_the_defaults() -> None:
    settings = load_settings(env={})
    assert settings.github_api_url == "https://api.github.com"
    assert (settings.provider, settings.label, settings.min_permission) == (
        "auto",
        "aider",
        "write",
    )
    assert settings.effective_database_url.startswith("sqlite:///")


def test_settings_cannot_be_changed() -> None:
    settings = load_settings(env={})
    with pytest.raises(Exception, match="frozen"):
        settings.label = "other"


def test_no_secret_shows_in_the_settings_or_in_a_problem(rsa_pem: str) -> None:
    secret = "hush-hush-hush"
    env = {variable(field): secret for field in SECRET_FIELDS}
    env["DRYDOCK_REDIS_URL"] = f"redis://:{secret}@host"
    env["DRYDOCK_DATABASE_URL"] = f"postgresql://u:{secret}@host/db"
    settings = load_settings(env=env)
    assert secret not in repr(settings)
    assert secret not in " ".join(github_problems(settings))
    assert secret not in " ".join(problems({**env, "DRYDOCK_CPUS": "0"}))
    assert "BEGIN" not in " ".join(
        github_problems(load_settings(env={"DRYDOCK_PRIVATE_KEY": rsa_pem[:99]}))
    )


def test_prices_are_set_together_or_not_at_all() -> None:
    assert "must be set together" in problems({"DRYDOCK_MODEL_INPUT_USD_PER_MTOK": "1"})[0]


def test_every_setting_says_what_it_is() -> None:
    assert all(field.description for field in Settings.model_fields.values())
    assert set(Settings.model_fields) >= SECRET_FIELDS


def test_our_own_login_follows_from_the_slug() -> None:
    assert load_settings(env={"DRYDOCK_APP_SLUG": "dock"}).own_login == "dock[bot]"
    assert load_settings(env={}).own_login is None


def test_the_models_to_choose_from_begin_with_the_default_one() -> None:
    env = {"DRYDOCK_MODEL": "a/b", "DRYDOCK_MODELS": "c/d, a/b"}
    assert load_settings(env=env).model_choices == ("a/b", "c/d")
    assert load_settings(env={}).model_choices == ()

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from app.settings import (
    SECRET_FIELDS,
    Settings,
    SettingsError,
    github_problems,
    load_settings,
    model_problems,
    model_vendor,
    require_github,
    require_model,
    system_ca_bundle,
    variable,
)


def pem(key: rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey) -> str:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    ).decode()


@pytest.fixture(scope="module")
def rsa_pem() -> str:
    return pem(rsa.generate_private_key(public_exponent=65537, key_size=2048))


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def problems(env: Mapping[str, str], path: Path | None = None) -> tuple[str, ...]:
    with pytest.raises(SettingsError) as caught:
        load_settings(path, env)
    return caught.value.problems


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def test_nothing_set_gives_the_defaults() -> None:
    settings = load_settings(env={})
    assert settings.github_api_url == "https://api.github.com"
    assert (settings.provider, settings.label, settings.min_permission) == (
        "auto",
        "aider",
        "write",
    )
    assert settings.effective_database_url.startswith("sqlite:///")


def test_an_environment_variable_wins_over_the_file(tmp_path: Path) -> None:
    path = write(tmp_path / "d.toml", 'model = "a/b"\nlabel = "bot"\n')
    settings = load_settings(path, {"DRYDOCK_MODEL": "c/d"})
    assert (settings.model, settings.label) == ("c/d", "bot")


def test_the_file_is_found_in_the_working_folder_or_by_its_variable(tmp_path: Path) -> None:
    write(tmp_path / "drydock.toml", 'label = "here"')
    assert load_settings(env={}).label == "here"
    other = write(tmp_path / "other.toml", 'label = "there"')
    assert load_settings(env={"DRYDOCK_CONFIG": str(other)}).label == "there"


def test_an_empty_variable_counts_as_not_set() -> None:
    assert load_settings(env={"DRYDOCK_MODEL": "", "DRYDOCK_CPUS": " "}).model is None


def test_settings_cannot_be_changed() -> None:
    settings = load_settings(env={})
    with pytest.raises(Exception, match="frozen"):
        settings.label = "other"


def test_lists_may_be_written_with_commas_or_as_toml_lists(tmp_path: Path) -> None:
    path = write(tmp_path / "d.toml", 'allowed_bots = ["a[bot]", "b[bot]"]')
    settings = load_settings(path, {"DRYDOCK_PLAIN_HTTP_HOSTS": "one, two"})
    assert settings.allowed_bots == ("a[bot]", "b[bot]")
    assert settings.plain_http_hosts == ("one", "two")


def test_an_unknown_key_is_refused_with_the_nearest_right_one(tmp_path: Path) -> None:
    path = write(tmp_path / "d.toml", "ttl_minuts = 5\n")
    (said,) = problems({}, path)
    assert "unknown key 'ttl_minuts'; did you mean 'ttl_minutes'?" in said


def test_a_mistyped_variable_is_refused_and_a_strangers_is_not() -> None:
    (said,) = problems({"DRYDOCK_MODLE": "x"})
    assert said == "DRYDOCK_MODLE is not a setting; did you mean DRYDOCK_MODEL?"
    load_settings(env={"DRYDOCK_SOMETHING_ELSE": "x"})


def test_every_problem_is_told_at_once_and_names_its_source(tmp_path: Path) -> None:
    path = write(tmp_path / "d.toml", 'cpus = "many"\n')
    said = problems({"DRYDOCK_APP_ID": "x", "DRYDOCK_BUDGET_USD": "-1"}, path)
    assert len(said) == 3
    assert any(s.startswith("DRYDOCK_APP_ID: ") for s in said)
    assert any(s.startswith(f"cpus in {path}: ") for s in said)


def test_broken_toml_and_a_missing_file_are_told(tmp_path: Path) -> None:
    assert "not valid TOML" in problems({}, write(tmp_path / "d.toml", "= 1"))[0]
    assert "cannot be read" in problems({}, tmp_path / "none.toml")[0]


@pytest.mark.parametrize("url", ["github.example", "https://u:p@host/", "https://a b/"])
def test_an_address_must_have_a_scheme_and_no_credentials(url: str) -> None:
    assert "DRYDOCK_GITHUB_URL: must" in problems({"DRYDOCK_GITHUB_URL": url})[0]


def test_a_trailing_slash_of_an_address_is_dropped() -> None:
    settings = load_settings(env={"DRYDOCK_GITHUB_API_URL": "http://127.0.0.1:9/api/v3/"})
    assert settings.github_api_url == "http://127.0.0.1:9/api/v3"


def test_a_secret_is_read_from_a_file_without_its_last_newline(tmp_path: Path) -> None:
    path = write(tmp_path / "secret", "hush\n")
    settings = load_settings(env={"DRYDOCK_WEBHOOK_SECRET_FILE": str(path)})
    assert settings.webhook_secret is not None
    assert settings.webhook_secret.get_secret_value() == "hush"


def test_a_secret_files_path_in_the_config_is_relative_to_it(tmp_path: Path) -> None:
    folder = tmp_path / "etc"
    folder.mkdir()
    write(folder / "key", "hush")
    path = write(folder / "d.toml", 'model_api_key_file = "key"')
    settings = load_settings(path, {})
    assert settings.model_api_key is not None
    assert settings.model_api_key.get_secret_value() == "hush"


def test_a_secret_file_that_cannot_be_read_or_is_empty_is_a_problem(tmp_path: Path) -> None:
    (said,) = problems({"DRYDOCK_PRIVATE_KEY_FILE": str(tmp_path / "none")})
    assert said.startswith("DRYDOCK_PRIVATE_KEY_FILE: cannot read")
    empty = write(tmp_path / "empty", "\n")
    assert "is empty" in problems({"DRYDOCK_WEBHOOK_SECRET_FILE": str(empty)})[0]
    binary = tmp_path / "binary"
    binary.write_bytes(b"\xff\xfe\x00")
    assert "is not text" in problems({"DRYDOCK_WEBHOOK_SECRET_FILE": str(binary)})[0]


def test_a_secret_given_twice_is_a_problem(tmp_path: Path) -> None:
    path = write(tmp_path / "s", "x")
    env = {"DRYDOCK_WEBHOOK_SECRET": "y", "DRYDOCK_WEBHOOK_SECRET_FILE": str(path)}
    assert "are both set" in problems(env)[0]


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


def test_what_github_needs_is_listed_with_how_to_set_it() -> None:
    said = github_problems(load_settings(env={}))
    assert len(said) == 3
    with pytest.raises(SettingsError, match="DRYDOCK_WEBHOOK_SECRET is not set"):
        require_github(load_settings(env={}))


def test_a_complete_github_group_is_returned(rsa_pem: str) -> None:
    env = {
        "DRYDOCK_APP_ID": "5",
        # As a .env file has it.
        "DRYDOCK_PRIVATE_KEY": rsa_pem.replace("\n", "\\n"),
        "DRYDOCK_WEBHOOK_SECRET": "x",
    }
    group = require_github(load_settings(env=env))
    assert group.app_id == 5
    assert group.private_key.get_secret_value() == rsa_pem


def test_a_key_that_is_no_usable_app_key_is_told_without_its_content() -> None:
    elliptic = pem(ec.generate_private_key(ec.SECP256R1()))
    locked = (
        rsa.generate_private_key(public_exponent=65537, key_size=2048)
        .private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(b"x"),
        )
        .decode()
    )
    for key, words in ((elliptic, "not an RSA key"), (locked, "passphrase"), ("xyz", "not a PEM")):
        settings = load_settings(env={"DRYDOCK_PRIVATE_KEY": key})
        said = " ".join(github_problems(settings))
        assert "DRYDOCK_PRIVATE_KEY " in said
        assert words in said
        assert key not in said


@pytest.mark.parametrize(
    ("model", "vendor"),
    [
        ("openai/x", "openai"),
        ("gpt-4.1", "openai"),
        ("o3-mini", "openai"),
        ("claude-sonnet-4-5", "anthropic"),
        ("anthropic/claude", "anthropic"),
        ("openrouter/anthropic/claude", "openrouter"),
        ("something", None),
    ],
)
def test_the_vendor_of_a_model_is_told_by_its_name(model: str, vendor: str | None) -> None:
    assert model_vendor(model) == vendor


def test_the_vendors_own_variables_fill_what_is_not_set() -> None:
    env = {
        "DRYDOCK_MODEL": "claude-x",
        "ANTHROPIC_API_KEY": "a",
        "ANTHROPIC_BASE_URL": "http://127.0.0.1:9/",
        "OPENAI_API_KEY": "o",
    }
    group = require_model(load_settings(env=env))
    assert group.api_key is not None
    assert group.api_key.get_secret_value() == "a"
    assert group.api_base == "http://127.0.0.1:9"


def test_another_vendors_key_is_never_taken() -> None:
    env = {"DRYDOCK_MODEL": "claude-x", "OPENAI_API_KEY": "o"}
    settings = load_settings(env=env)
    assert settings.model_api_key is None
    assert "(or ANTHROPIC_API_KEY)" in model_problems(settings)[0]


def test_drydocks_own_key_wins_over_the_vendors() -> None:
    env = {"DRYDOCK_MODEL": "gpt-4", "DRYDOCK_MODEL_API_KEY": "mine", "OPENAI_API_KEY": "o"}
    key = load_settings(env=env).model_api_key
    assert key is not None
    assert key.get_secret_value() == "mine"


def test_a_server_of_ones_own_may_want_no_key() -> None:
    env = {"DRYDOCK_MODEL": "openai/x", "DRYDOCK_MODEL_API_BASE": "http://127.0.0.1:9/v1"}
    assert require_model(load_settings(env=env)).api_key is None
    with pytest.raises(SettingsError, match="DRYDOCK_MODEL is not set"):
        require_model(load_settings(env={}))


def test_prices_are_set_together_or_not_at_all() -> None:
    assert "must be set together" in problems({"DRYDOCK_MODEL_INPUT_USD_PER_MTOK": "1"})[0]


def test_the_operators_ca_bundle_wins_and_must_exist(tmp_path: Path) -> None:
    bundle = write(tmp_path / "ca.pem", "x")
    assert system_ca_bundle(load_settings(env={"DRYDOCK_CA_BUNDLE": str(bundle)})) == bundle
    assert "file that exists" in problems({"DRYDOCK_CA_BUNDLE": str(tmp_path / "no")})[0]
    found = system_ca_bundle(load_settings(env={}))
    assert found is None or found.is_file()


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

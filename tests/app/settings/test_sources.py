from __future__ import annotations

from pathlib import Path

from app.settings import load_settings, model_problems, require_model
from tests.app.settings.helpers import problems, write


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


def test_an_unknown_key_is_refused_with_the_nearest_right_one(tmp_path: Path) -> None:
    path = write(tmp_path / "d.toml", "ttl_minuts = 5\n")
    (said,) = problems({}, path)
    assert "unknown key 'ttl_minuts'; did you mean 'ttl_minutes'?" in said


def test_a_key_that_is_written_as_in_the_environment_is_answered(tmp_path: Path) -> None:
    (said,) = problems({}, write(tmp_path / "d.toml", "DRYDOCK_MODEL = 'gpt-4o'\n"))
    assert "unknown key 'DRYDOCK_MODEL'; did you mean 'model'?" in said


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

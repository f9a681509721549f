"""How Aider is started."""

from __future__ import annotations

import dataclasses
import json

import pytest
import yaml

from workers.aider import (
    CONVENTIONS_FILE,
    AiderJob,
    build_argv,
    build_env,
    build_files,
    build_model_metadata,
    build_prompt,
    files_named_in,
)


def job(**changes: object) -> AiderJob:
    return dataclasses.replace(AiderJob(model="openai/some-model"), **changes)  # type: ignore[arg-type]


def test_the_other_models_are_set_so_that_aider_picks_none() -> None:
    argv = build_argv(job())
    for flag in ("--model", "--weak-model", "--editor-model"):
        assert f"{flag}=openai/some-model" in argv


def test_the_edit_format_is_always_given() -> None:
    assert "--edit-format=diff" in build_argv(job())
    assert "--edit-format=udiff" in build_argv(job(edit_format="udiff"))


def test_checks_are_off_unless_a_command_is_configured() -> None:
    argv = build_argv(job())
    assert {"--no-auto-test", "--no-auto-lint"} <= set(argv)
    argv = build_argv(job(test_command="pytest -q", lint_command="make lint"))
    assert {"--auto-test", "--test-cmd=pytest -q", "--auto-lint"} <= set(argv)
    assert "--lint-cmd=sh -c 'make lint' lint" in argv


def test_a_lint_command_cannot_be_read_as_a_language() -> None:
    flag = next(each for each in build_argv(job(lint_command="python: rm x")) if "lint-cmd" in each)
    assert flag.startswith("--lint-cmd=sh -c ")


def test_a_file_name_cannot_become_a_flag() -> None:
    argv = build_argv(job(files=("--gui", "a b.py")))
    assert argv[-2:] == ["--file=--gui", "--file=a b.py"]


def test_the_environment_is_the_routes_and_ours_alone() -> None:
    env = build_env(job(route_env={"OPENAI_API_BASE": "http://127.0.0.1:3128/model/m"}))
    assert env["OPENAI_API_BASE"] == "http://127.0.0.1:3128/model/m"
    assert env["LITELLM_LOCAL_MODEL_COST_MAP"] == "True"
    assert "HOME" not in env


@pytest.mark.parametrize("brief", ["/run id", "!id", "\n/run id", "\x00/run id"])
def test_the_prompt_begins_with_fixed_text_so_that_nothing_is_executed(brief: str) -> None:
    prompt = build_prompt(brief)
    assert prompt.startswith("Change this repository")
    assert "\x00" not in prompt


def test_the_metadata_has_exactly_one_entry_with_the_tables_price() -> None:
    entry = {"input_cost_per_token": 1e-6, "max_input_tokens": 200_000}
    told = json.loads(build_model_metadata("openai/m", entry))
    assert list(told) == ["openai/m"]
    assert told["openai/m"]["max_input_tokens"] == 200_000
    assert told["openai/m"]["input_cost_per_token"] == 1e-6


def test_a_model_without_a_price_still_has_an_entry() -> None:
    assert json.loads(build_model_metadata("openai/m", None))["openai/m"]["max_input_tokens"]


def test_the_settings_turn_the_clients_own_retries_off_and_replace_nothing() -> None:
    files = build_files(job(extra_params={"seed": 1}), "brief")
    told = yaml.safe_load(files["../job/model-settings.yml"])
    assert told == [{"name": "aider/extra_params", "extra_params": {"max_retries": 0, "seed": 1}}]


TREE = ("src/app.py", "src/util.py", "lib/util.py", "Makefile", "run", "docs/a b.md", "README.md")


@pytest.mark.parametrize(
    ("brief", "named"),
    [
        ("", ()),
        ("look at src/app.py please", ("src/app.py",)),
        ("in `app.py`, line 3", ("src/app.py",)),
        ("util.py is in two places", ()),
        ("lib/util.py:12 and ./src/util.py#L4.", ("lib/util.py", "src/util.py")),
        ("run the Makefile", ("run", "Makefile")),
        ("(README.md)", ("README.md",)),
        ("File 'src/app.py'!", ("src/app.py",)),
        ("../../etc/passwd /etc/passwd", ()),
        (".env .aider.conf.yml", ()),
    ],
)
def test_files_named_in_a_brief_are_found(brief: str, named: tuple[str, ...]) -> None:
    assert files_named_in(brief, (*TREE, ".env", ".aider.conf.yml")) == named


def test_a_brief_that_names_every_file_is_capped() -> None:
    tree = [f"m{number}.py" for number in range(3_000)]
    assert files_named_in(" ".join(tree), tree) == tuple(tree[:8])


def test_conventions_are_read_only_and_lie_outside_the_repository() -> None:
    with_them = job(conventions="Be kind.\n")
    assert f"--read={CONVENTIONS_FILE}" in build_argv(with_them)
    assert build_files(with_them, "brief")[CONVENTIONS_FILE] == b"Be kind.\n"
    assert not any(arg.startswith("--read") for arg in build_argv(job()))
    assert CONVENTIONS_FILE not in build_files(job(), "brief")

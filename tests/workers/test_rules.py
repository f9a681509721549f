from __future__ import annotations

from collections.abc import Mapping

import pytest

from app.config_limits import Limits
from app.github.errors import Invalid
from app.repo_config import CONFIG_PATH, ConfigError, RepoConfig
from tests.workers.conftest import Repo
from workers.git import Git
from workers.objects import UnreadableBlob
from workers.rules import MAX_CONVENTIONS, NO_RULES, Rules, read_rules, rules_in_mirror

CONFIG = CONFIG_PATH.encode()
LIMITS = Limits(models=("a",), ttl_s=600, budget_usd=1, permission="write", templates=("default",))


def rules_of(files: Mapping[str, bytes], limits: Limits | None = LIMITS) -> Rules | ConfigError:
    return read_rules(files.get, limits)


def test_no_file_gives_the_defaults() -> None:
    assert rules_of({}) == NO_RULES
    assert rules_of({"STYLE.md": b"x"}) == NO_RULES


def test_the_config_comes_with_the_conventions_that_it_names() -> None:
    found = rules_of(
        {CONFIG_PATH: b"instructions: STYLE.md\n", "STYLE.md": b"\xef\xbb\xbfBe kind."}
    )
    assert isinstance(found, Rules)
    assert found.conventions == "Be kind."


@pytest.mark.parametrize(
    ("conventions", "words"),
    [
        (None, "there is no STYLE.md on the default branch"),
        (b"\xff\xfe", "STYLE.md is not UTF-8"),
        (b"x" * (MAX_CONVENTIONS + 1), "STYLE.md is larger than 64 KiB"),
    ],
)
def test_conventions_that_cannot_be_read_are_an_error_with_the_keys_line(
    conventions: bytes | None, words: str
) -> None:
    files = {CONFIG_PATH: b"# ours\n\ninstructions: STYLE.md\n"}
    if conventions is not None:
        files["STYLE.md"] = conventions
    error = rules_of(files)
    assert isinstance(error, ConfigError)
    assert words in error.reason
    assert error.line == 3


def test_a_wish_beyond_the_limits_is_refused_only_where_there_are_limits() -> None:
    files = {CONFIG_PATH: b"ttl: 1h\n"}
    assert isinstance(rules_of(files), ConfigError)
    assert isinstance(rules_of(files, None), Rules)


@pytest.mark.parametrize("error", [UnreadableBlob("it is a folder"), Invalid(("a folder",))])
@pytest.mark.parametrize("which", [CONFIG_PATH, "STYLE.md"])
def test_what_is_no_ordinary_file_is_an_error(error: Exception, which: str) -> None:
    def read(path: str) -> bytes | None:
        if path == which:
            raise error
        return b"instructions: STYLE.md\n"

    found = read_rules(read, LIMITS)
    assert isinstance(found, ConfigError)
    assert "a folder" in found.reason


def test_a_config_that_is_no_file_in_a_mirror_is_refused(server_repo: Repo, git: Git) -> None:
    server_repo.commit({CONFIG + b"/x": b"y"}, ref="refs/heads/main")
    assert isinstance(rules_in_mirror(git, server_repo.path, "main"), ConfigError)


def test_without_a_default_branch_the_defaults_hold(server_repo: Repo, git: Git) -> None:
    found = rules_in_mirror(git, server_repo.path, "gone")
    assert found == Rules(RepoConfig.model_validate({}))

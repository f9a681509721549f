from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from app.repo_config import CONFIG_PATH, ConfigError, RepoConfig
from tests.workers.conftest import Repo
from workers.checkout import EmptyRepository, NoSuchBranch, Source, lock_mirror
from workers.git import Git
from workers.prepare import Prepared, Wanted, prepare, read_config

Result = Prepared | EmptyRepository | NoSuchBranch | ConfigError
CONFIG = CONFIG_PATH.encode()


@pytest.fixture
def prepared(tmp_path: Path, git: Git) -> Callable[..., Result]:
    """Prepare from a served repository."""

    def do(served: Repo, base: str = "main", sha: str | None = None, brief: str = "") -> Result:
        source = Source(f"file://{served.path}", 7)
        with lock_mirror(tmp_path / "state", source) as lock:
            return prepare(git, lock, Wanted("main", base, sha, brief), tmp_path)

    return do


def test_a_config_is_read_from_the_default_branch_never_from_the_base(
    server_repo: Repo, prepared: Callable[..., Result]
) -> None:
    main = server_repo.commit({CONFIG: b"test: make good\n"}, ref="refs/heads/main")
    server_repo.commit({CONFIG: b"test: make evil\n"}, parents=[main], ref="refs/heads/work")
    found = prepared(server_repo, "work")
    assert isinstance(found, Prepared)
    assert found.commands.test == "make good"
    assert found.test_source == f"test in {CONFIG_PATH}"


def test_without_a_config_the_tests_are_found_on_the_base(
    server_repo: Repo, prepared: Callable[..., Result]
) -> None:
    server_repo.commit(
        {b"test_x.py": b"def test_x():\n    pass\n", b"caf\xe9.py": b"import pytest\n"},
        ref="refs/heads/main",
    )
    found = prepared(server_repo)
    assert isinstance(found, Prepared)
    assert found.commands.test == "python3 -m pytest -q"
    assert found.test_source == "found test_x.py"


def test_files_that_the_brief_names_are_offered_to_aider(
    server_repo: Repo, prepared: Callable[..., Result]
) -> None:
    found = prepared(server_repo, brief="Look at src/app.py and nothing.py")
    assert isinstance(found, Prepared)
    assert found.files == ("src/app.py",)


def test_the_base_that_was_frozen_is_used_though_the_branch_went_on(
    server_repo: Repo, prepared: Callable[..., Result]
) -> None:
    frozen = server_repo.read("refs/heads/main")
    server_repo.commit({b"later": b"x"}, parents=[frozen], ref="refs/heads/main")
    found = prepared(server_repo, sha=frozen)
    assert isinstance(found, Prepared)
    assert found.bundle.base_sha == frozen


def test_what_stands_in_the_way_is_a_value(
    server_repo: Repo, make_repo: Callable[[str], Repo], prepared: Callable[..., Result]
) -> None:
    assert prepared(server_repo, "nowhere") == NoSuchBranch("nowhere")
    assert prepared(make_repo("empty.git")) == NoSuchBranch("main") or isinstance(
        prepared(make_repo("empty2.git")), EmptyRepository
    )
    server_repo.commit({CONFIG: b"tset: x\n"}, ref="refs/heads/main")
    assert isinstance(prepared(server_repo), ConfigError)


def test_a_config_that_is_no_file_is_refused(server_repo: Repo, git: Git) -> None:
    server_repo.commit({CONFIG + b"/x": b"y"}, ref="refs/heads/main")
    assert isinstance(read_config(git, server_repo.path, "main"), ConfigError)


def test_without_a_default_branch_the_defaults_hold(server_repo: Repo, git: Git) -> None:
    assert read_config(git, server_repo.path, "gone") == RepoConfig.model_validate({})

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from app.repo_config import CONFIG_PATH, ConfigError, RepoConfig
from tests.workers.conftest import Repo
from workers.checkout import EmptyRepository, NoSuchBranch, Source, lock_mirror
from workers.git import Git
from workers.prepare import MAX_HINTED_FILES, Prepared, Wanted, files_hinted_at, prepare
from workers.rules import Rules

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


def test_files_that_the_config_hints_at_are_offered_too(
    server_repo: Repo, prepared: Callable[..., Result]
) -> None:
    names = (b"docs/a.md", b"docs/sub/b.md", b"docs/.aider.md", b"src/app.py")
    files = dict.fromkeys(names, b"x")
    config = b"files: ['docs/*.md', src/app.py, gone.py, 'none/**']\n"
    server_repo.commit({CONFIG: config, **files}, ref="refs/heads/main")
    found = prepared(server_repo, brief="Look at docs/sub/b.md")
    assert isinstance(found, Prepared)
    assert found.files == ("docs/sub/b.md", "docs/a.md", "src/app.py")
    assert found.notes == (
        f"`files` in {CONFIG_PATH} names what is not in the repository: gone.py, none/**",
    )


def test_hints_offer_no_more_than_a_few_files() -> None:
    tree = [f"{n}.py" for n in range(100)]
    assert len(files_hinted_at(["*.py"], tree)[0]) == MAX_HINTED_FILES


def test_conventions_come_from_the_default_branch(
    server_repo: Repo, prepared: Callable[..., Result]
) -> None:
    files = {CONFIG: b"instructions: STYLE.md\n", b"STYLE.md": b"Be kind.\n"}
    main = server_repo.commit(files, ref="refs/heads/main")
    server_repo.commit({b"STYLE.md": b"Be evil.\n"}, parents=[main], ref="refs/heads/work")
    found = prepared(server_repo, "work")
    assert isinstance(found, Prepared)
    assert found.conventions == "Be kind.\n"


def test_rules_that_are_known_are_not_read_again(
    server_repo: Repo, git: Git, tmp_path: Path
) -> None:
    server_repo.commit({CONFIG: b"test: make evil\n"}, ref="refs/heads/main")
    rules = Rules(RepoConfig.model_validate({"test": "make good"}), "Be kind.")
    source = Source(f"file://{server_repo.path}", 7)
    with lock_mirror(tmp_path / "state", source) as lock:
        found = prepare(git, lock, Wanted(rules, "main", None, ""), tmp_path)
    assert isinstance(found, Prepared)
    assert (found.commands.test, found.conventions) == ("make good", "Be kind.")

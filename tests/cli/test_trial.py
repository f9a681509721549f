"""`drydock try`: what PATH and ISSUE may be, and the run itself with a stand-in for Aider."""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from cli import trial as module
from cli.main import drydock
from demo.model import ScriptedModel
from sandbox.provider import Probe
from tests.harbour.harbour import CHECKOUT, FILES, RIGHT, WRONG, fix
from tests.harbour.stand_in import StandInProvider

ISSUE = "# add() subtracts\n\n`add(2, 2)` in `calc.py` gives 0. It should be 4.\n"
BRANCH = "aider/add-subtracts"
KEY = secrets.token_hex(16)
GIT_ENV = {
    "PATH": os.environ["PATH"],
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_AUTHOR_NAME": "Mona",
    "GIT_AUTHOR_EMAIL": "mona@example.org",
    "GIT_COMMITTER_NAME": "Mona",
    "GIT_COMMITTER_EMAIL": "mona@example.org",
}

READ_ONLY = 'mount --bind "$1" "$1" && mount -o remount,bind,ro "$1" && shift && exec "$@"'


def git(folder: Path, *args: str) -> str:
    done = subprocess.run(
        ["git", "-C", str(folder), *args], env=GIT_ENV, check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


def make_repository(folder: Path, *init: str, files: dict[str, str] | None = None) -> Path:
    folder.mkdir(parents=True)
    git(folder, "init", "--quiet", "--initial-branch=main", *init)
    for name, text in (FILES if files is None else files).items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message=Begin")
    return folder


@pytest.fixture
def issue(tmp_path: Path) -> Path:
    path = tmp_path / "ISSUE.md"
    path.write_text(ISSUE)
    return path


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A host with a model of one's own, on which nothing may be baked and no machine made."""
    for name in [name for name in os.environ if name.startswith(("DRYDOCK_", "OPENAI_"))]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("DRYDOCK_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("DRYDOCK_MODEL", "openai/scripted")
    monkeypatch.setenv("DRYDOCK_MODEL_API_KEY", KEY)
    monkeypatch.setenv("DRYDOCK_PROVIDER", "fake")
    monkeypatch.setattr(module.bake, "ensure", too_early)
    monkeypatch.setattr(StandInProvider, "create", too_early)
    monkeypatch.setattr(module, "make_provider", lambda _name, state, _: StandInProvider(state))
    return tmp_path / "state"


def too_early(*_: object, **__: object) -> None:
    raise AssertionError("this was to be judged before anything is baked or started")


def attempt(*args: object, stdin: str | bytes | None = None) -> Result:
    return CliRunner().invoke(drydock, ["try", *map(str, args)], input=stdin)


def refusal(*args: object, stdin: str | bytes | None = None, status: int = 1) -> str:
    """The one line that says what to do."""
    done = attempt(*args, stdin=stdin)
    assert done.exit_code == status, done.output + repr(done.exception)
    said = [line for line in done.stderr.splitlines() if line.startswith("Error: ")]
    assert done.stderr.splitlines()[-1:] == said, done.stderr
    return said[0]


class TestWhatIsRefused:
    def test_a_folder_that_is_no_repository(self, state: Path, tmp_path: Path, issue: Path) -> None:
        (tmp_path / "plain").mkdir()
        assert "plain is not a git repository: `git init`" in refusal(tmp_path / "plain", issue)

    def test_a_path_that_is_not_there(self, state: Path, tmp_path: Path, issue: Path) -> None:
        assert "does not exist" in refusal(tmp_path / "gone", issue, status=2)

    def test_an_empty_repository(self, state: Path, tmp_path: Path, issue: Path) -> None:
        (tmp_path / "empty").mkdir()
        git(tmp_path / "empty", "init", "--quiet")
        assert "empty has no commit yet: commit something" in refusal(tmp_path / "empty", issue)

    def test_a_detached_head(self, state: Path, tmp_path: Path, issue: Path) -> None:
        repository = make_repository(tmp_path / "ship")
        git(repository, "checkout", "--quiet", "--detach")
        said = refusal(repository, issue)
        assert "--base" in said
        assert "git switch -c NAME" in said

    def test_a_branch_without_a_commit_beside_others(
        self, state: Path, tmp_path: Path, issue: Path
    ) -> None:
        repository = make_repository(tmp_path / "ship")
        git(repository, "checkout", "--quiet", "--orphan", "bare-plan")
        assert "no branch bare-plan with a commit: name one with --base (main)" in refusal(
            repository, issue
        )

    def test_a_base_that_is_not_there(self, state: Path, tmp_path: Path, issue: Path) -> None:
        repository = make_repository(tmp_path / "ship")
        for number in range(7):
            git(repository, "branch", f"b{number}")
        said = refusal(repository, issue, "--base", "gone")
        assert "ship has no branch gone" in said
        assert said.endswith(", …)")

    def test_names_by_sha_256(self, state: Path, tmp_path: Path, issue: Path) -> None:
        repository = make_repository(tmp_path / "ship", "--object-format=sha256")
        assert "SHA-256" in refusal(repository, issue)

    def test_a_partial_clone(self, state: Path, tmp_path: Path, issue: Path) -> None:
        whole = make_repository(tmp_path / "whole")
        git(whole, "config", "uploadpack.allowFilter", "true")
        git(tmp_path, "clone", "--quiet", "--filter=blob:none", whole.as_uri(), "part")
        assert "part is a partial clone" in refusal(tmp_path / "part", issue)

    def test_a_repository_that_git_cannot_read(
        self, state: Path, tmp_path: Path, issue: Path
    ) -> None:
        repository = make_repository(tmp_path / "ship")
        git(repository, "config", "core.repositoryFormatVersion", "9")
        assert "git cannot read the repository at" in refusal(repository, issue)

    def test_a_repository_that_is_not_ones_own_to_write(
        self, state: Path, tmp_path: Path, issue: Path
    ) -> None:
        """Read-only by a mount, which binds root as well."""
        repository = make_repository(tmp_path / "ship")
        done = subprocess.run(
            [
                *("unshare", "--map-root-user", "--mount", "sh", "-c", READ_ONLY, "sh"),
                *(str(repository), sys.executable, "-m", "cli", "try", str(repository), str(issue)),
            ],
            cwd=CHECKOUT,
            env=dict(os.environ),
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 1, done.stderr
        assert "ship/.git cannot be written, and the branch is to be left there" in done.stderr

    def test_a_config_that_is_wrong(self, state: Path, tmp_path: Path, issue: Path) -> None:
        files = {**FILES, ".github/drydock.yml": "tests: pytest\n"}
        done = attempt(make_repository(tmp_path / "ship", files=files), issue)
        assert done.exit_code == 1
        assert "drydock.yml, line 1" in done.stdout
        assert "did you mean test?" in " ".join(done.stdout.replace("│", "").split())

    def test_no_model(
        self, state: Path, tmp_path: Path, issue: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.delenv("DRYDOCK_MODEL")
        said = refusal(make_repository(tmp_path / "ship"), issue)
        assert "DRYDOCK_MODEL is not set" in said

    def test_no_key(
        self, state: Path, tmp_path: Path, issue: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.delenv("DRYDOCK_MODEL_API_KEY")
        said = refusal(make_repository(tmp_path / "ship"), issue)
        assert "DRYDOCK_MODEL_API_KEY (or OPENAI_API_KEY) is not set" in said

    def test_a_model_that_cannot_be_reached_by_any_route(
        self, state: Path, tmp_path: Path, issue: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("DRYDOCK_MODEL", "no-such-vendor/m")
        assert "no-such-vendor" in refusal(make_repository(tmp_path / "ship"), issue)

    def test_a_provider_that_does_not_work_here(
        self, state: Path, tmp_path: Path, issue: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(StandInProvider, "probe", lambda _: Probe(ok=False, reason="no ptrace"))
        said = refusal(make_repository(tmp_path / "ship"), issue)
        assert said == "Error: fake does not work on this host: no ptrace"


class TestWhatTheIssueMayBe:
    @pytest.fixture
    def repository(self, tmp_path: Path) -> Path:
        return make_repository(tmp_path / "ship")

    @pytest.mark.parametrize(
        ("content", "words"),
        [
            (b"", "says nothing"),
            (b"# \n\n#\n", "says nothing"),
            (b"\x89PNG\0\0", "is not a text file"),
            (b"x" * (256 * 1024 + 1), "longer than 256 KiB"),
        ],
    )
    def test_anything_else_than_words_is_refused(
        self, state: Path, repository: Path, issue: Path, content: bytes, words: str
    ) -> None:
        issue.write_bytes(content)
        assert words in refusal(repository, issue)
        said = refusal(repository, "-", stdin=content)
        assert words in said
        assert "standard input" in said

    def test_a_file_that_is_not_there(self, state: Path, repository: Path, tmp_path: Path) -> None:
        assert "does not exist" in refusal(repository, tmp_path / "gone.md", status=2)

    def test_a_folder(self, state: Path, repository: Path, tmp_path: Path) -> None:
        assert "is a directory" in refusal(repository, tmp_path, status=2)

    def test_a_file_that_cannot_be_read(
        self, state: Path, repository: Path, issue: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def deny(*_: object) -> None:
            raise PermissionError(13, "Permission denied")

        monkeypatch.setattr(Path, "open", deny)
        assert "ISSUE.md: Permission denied" in refusal(repository, issue)

    @pytest.mark.parametrize(
        ("text", "title", "body"),
        [
            ("\ufeff# It leaks\n\nBadly.\n", "It leaks", "Badly."),
            ("\n\n  Es läuft über  \r\nSehr.\r\n", "Es läuft über", "Sehr."),
            ("only a title", "only a title", ""),
        ],
    )
    def test_its_first_words_are_the_title(
        self, issue: Path, text: str, title: str, body: str
    ) -> None:
        issue.write_bytes(text.encode())
        assert module.read_issue(issue) == (title, body)


@pytest.fixture
def model() -> Iterator[ScriptedModel]:
    with ScriptedModel(fix(), api_key=KEY) as model:
        yield model


class TestARun:
    @pytest.fixture(autouse=True)
    def host(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, model: ScriptedModel) -> None:
        for name in [name for name in os.environ if name.startswith(("DRYDOCK_", "OPENAI_"))]:
            monkeypatch.delenv(name)
        monkeypatch.chdir(tmp_path)
        (tmp_path / "state").mkdir()
        (tmp_path / "state/templates").symlink_to(CHECKOUT / ".drydock/state/templates")
        for name, value in {
            "HOME": str(tmp_path),
            "DRYDOCK_STATE_DIR": str(tmp_path / "state"),
            "DRYDOCK_MODEL": "openai/scripted",
            "DRYDOCK_MODEL_API_KEY": KEY,
            "DRYDOCK_MODEL_API_BASE": model.openai_base,
            "DRYDOCK_PROVIDER": "fake",
        }.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setattr(module, "make_provider", lambda _name, state, _: StandInProvider(state))

    def report(self, *args: object, status: int = 0, stdin: str | None = None) -> dict[str, Any]:
        done = attempt(*args, "--json", stdin=stdin)
        assert done.exit_code == status, done.output + repr(done.exception)
        told: dict[str, Any] = json.loads(done.stdout)
        return told

    def test_it_leaves_a_branch_and_checks_nothing_out(self, tmp_path: Path, issue: Path) -> None:
        repository = make_repository(tmp_path / "ship")
        report = self.report(repository, issue)
        assert report["branch"] == BRANCH
        assert git(repository, "show", f"{BRANCH}:calc.py") + "\n" == RIGHT
        assert (repository / "calc.py").read_text() == WRONG
        assert git(repository, "branch", "--show-current") == "main"
        assert git(repository, "status", "--porcelain") == ""

    def test_the_tests_ran_before_and_after_as_in_a_run_on_github(
        self, tmp_path: Path, issue: Path
    ) -> None:
        report = self.report(make_repository(tmp_path / "ship"), issue)
        assert report["test_before"]["exit_code"] == 1
        assert report["test"]["exit_code"] == 0

    def test_the_next_one_has_the_next_name_and_does_not_test_the_base_again(
        self, tmp_path: Path, issue: Path, model: ScriptedModel
    ) -> None:
        repository = make_repository(tmp_path / "ship")
        self.report(repository, issue)
        again = self.report(repository, issue)
        assert again["branch"] == f"{BRANCH}-2"
        assert again["test_before"]["exit_code"] == 1
        kept = list((tmp_path / "state/base-tests").iterdir())
        assert len(kept) == 1

    def test_the_repositorys_protected_paths_hold(self, tmp_path: Path, issue: Path) -> None:
        config = FILES[".github/drydock.yml"] + "protected_paths: [calc.py]\n"
        repository = make_repository(
            tmp_path / "ship", files={**FILES, ".github/drydock.yml": config}
        )
        report = self.report(repository, issue, status=1)
        assert report["outcome"] == "refused"
        assert "calc.py" in report["detail"]
        assert git(repository, "branch", "--list", "aider/*") == ""

    def test_the_issue_may_be_piped_in(self, tmp_path: Path) -> None:
        repository = make_repository(tmp_path / "ship")
        assert self.report(repository, "-", stdin=ISSUE)["branch"] == BRANCH

    def test_uncommitted_changes_are_not_seen_and_that_is_said(
        self, tmp_path: Path, issue: Path
    ) -> None:
        repository = make_repository(tmp_path / "ship")
        (repository / "calc.py").write_text("raise SystemExit('half done')\n")
        done = attempt(repository, issue)
        assert done.exit_code == 0, done.output
        assert "Uncommitted changes are not seen" in done.stderr
        assert (repository / "calc.py").read_text().startswith("raise")

    @pytest.mark.parametrize("name", ["with spaces", "schön größer", "per%20cent", "-dash", "a#b?"])
    def test_paths_of_every_kind(self, tmp_path: Path, issue: Path, name: str) -> None:
        repository = make_repository(tmp_path / "yard" / name)
        report = self.report(repository, issue)
        assert (report["repo"], report["branch"]) == (name, BRANCH)

    def test_a_folder_of_a_repository_means_the_whole(self, tmp_path: Path, issue: Path) -> None:
        repository = make_repository(tmp_path / "ship", files={**FILES, "docs/a.md": "a\n"})
        done = attempt(repository / "docs", issue)
        assert done.exit_code == 0, done.output
        assert "docs is a folder of ship" in done.stderr
        assert BRANCH in git(repository, "branch", "--list", "aider/*")

    def test_a_bare_repository(self, tmp_path: Path, issue: Path) -> None:
        make_repository(tmp_path / "ship")
        git(tmp_path, "clone", "--quiet", "--bare", "ship", "store.git")
        report = self.report(tmp_path / "store.git", issue)
        assert (report["repo"], report["branch"]) == ("store", BRANCH)
        assert BRANCH in git(tmp_path / "store.git", "branch", "--list", "aider/*")

    def test_the_inside_of_a_repository(self, tmp_path: Path, issue: Path) -> None:
        repository = make_repository(tmp_path / "ship")
        assert self.report(repository / ".git", issue)["repo"] == "ship"

    def test_a_linked_work_tree_starts_from_its_own_branch(
        self, tmp_path: Path, issue: Path
    ) -> None:
        repository = make_repository(tmp_path / "ship")
        git(repository, "worktree", "add", "--quiet", "-b", "other", str(tmp_path / "linked"))
        report = self.report(tmp_path / "linked", issue)
        assert (report["repo"], report["base_ref"]) == ("ship", "other")

    def test_a_shallow_clone_and_later_the_whole_one(self, tmp_path: Path, issue: Path) -> None:
        origin = make_repository(tmp_path / "origin")
        for number in range(3):
            git(origin, "commit", "--quiet", "--allow-empty", f"--message={number}")
        git(tmp_path, "clone", "--quiet", "--depth=1", origin.as_uri(), "clone")
        clone = tmp_path / "clone"
        assert self.report(clone, issue)["branch"] == BRANCH
        assert self.report(clone, issue)["branch"] == f"{BRANCH}-2"
        git(clone, "fetch", "--quiet", "--unshallow")
        assert self.report(clone, issue)["branch"] == f"{BRANCH}-3"
        assert git(clone, "rev-list", "--count", f"{BRANCH}-3") == "5"

    def test_a_detached_head_with_a_base(self, tmp_path: Path, issue: Path) -> None:
        repository = make_repository(tmp_path / "ship")
        git(repository, "checkout", "--quiet", "--detach")
        assert self.report(repository, issue, "--base", "main")["base_ref"] == "main"

    def test_a_branch_of_ours_that_is_in_the_way_of_every_name(
        self, tmp_path: Path, issue: Path
    ) -> None:
        repository = make_repository(tmp_path / "ship")
        git(repository, "branch", "aider")
        assert self.report(repository, issue)["branch"] == BRANCH.replace("/", "-")

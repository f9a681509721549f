"""The main job, with every part real: a label, a machine, Aider, and a pull request to review."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from app.github.auth import Scope
from app.messages import BODY_LIMIT
from app.store import Run, attempts, reading, runs
from demo.github import Issue, Person, Pull, Repo
from demo.github.contract import DESCRIPTION, Contract, find
from demo.stage import FILES, MODEL, TITLE, fixing
from egress.audit import verify
from egress.inject import PLACEHOLDER
from tests.harbour.harbour import CHECKOUT, Harbour

pytestmark = [pytest.mark.e2e, pytest.mark.machine]

# Shows whatever a command in the machine can find of the host, and puts it into the result. Not the
# placeholder that stands for the model's key: the gate would refuse that.
SPY = (
    "(env; cat /proc/*/environ /proc/*/cmdline /proc/self/mountinfo; ls -laR /run /home /tmp)"
    f" 2>/dev/null | tr '\\0' '\\n' | sed 's/{PLACEHOLDER}/placeholder/g' > seen.txt;"
    " git add -f seen.txt; git commit -qm 'Show it all'"
)
SPIED_ON = FILES | {
    ".github/drydock.yml": f"setup: {json.dumps([SPY])}\ntest: python3 -m pytest -q\n"
}


@dataclass(frozen=True)
class Job:
    """One that is done."""

    harbour: Harbour
    repo: Repo
    mona: Person
    issue: Issue
    base_sha: str

    @property
    def run(self) -> Run:
        return self.harbour.run_of(self.issue)

    @property
    def pull(self) -> Pull:
        return self.harbour.pull_of(self.issue)

    @property
    def body(self) -> str:
        return self.pull.body or ""


def done(folder: Path, provider: str, files: dict[str, str]) -> Iterator[Job]:
    with Harbour(folder, fixing(), provider=provider) as harbour:
        repo, mona = harbour.stage.make_repository(files=files)
        issue = harbour.stage.open_issue(repo, mona)
        base_sha = repo.git.heads()["main"]
        mona.labels(issue, "aider")
        harbour.settle()
        yield Job(harbour, repo, mona, issue, base_sha)


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Job]:
    """The demo's job, in the strongest kind of machine that every host has."""
    if os.environ.get("DRYDOCK_PROVIDER") == "bubblewrap":
        pytest.skip("this host was set up without gVisor")
    yield from done(tmp_path_factory.mktemp("job") / "harbour", "gvisor", FILES)


@pytest.fixture(scope="module")
def spied(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Job]:
    """The same with bubblewrap, where a command looks around in the machine first."""
    yield from done(tmp_path_factory.mktemp("spied") / "harbour", "bubblewrap", SPIED_ON)


# --- what people see --------------------------------------------------------------------------


def test_the_request_is_seen_at_once_and_its_end_is_shown(job: Job) -> None:
    assert job.harbour.reactions_on(job.issue) == ["eyes", "rocket"]


def test_there_is_one_status_comment_that_was_edited_as_the_run_moved(job: Job) -> None:
    assert len(job.harbour.said_on(job.issue)) == 1
    recorder = job.harbour.github.recorder
    assert len(recorder.calls("POST", "/issues/1/comments")) == 1
    edits = [e for e in recorder.calls("PATCH") if "/issues/comments/" in e.path]
    shown = [json.loads(e.request_body)["body"] for e in edits]
    assert any("**Fetch the repository** …" in each for each in shown)
    assert any("**Aider works** …" in each for each in shown)
    said = job.harbour.status_of(job.issue)
    assert f"**Pull request #{job.pull.number} is there; its tests pass.**" in said
    assert "- [x] Aider works (" in said
    assert job.run.told_at is not None


def test_the_pull_request_is_a_draft_that_fixes_the_issue(job: Job) -> None:
    pull = job.pull
    assert pull.draft
    assert pull.author.login == "drydock[bot]"
    assert (pull.base_ref, pull.head_ref) == (
        "main",
        "aider/issue-1-a-discount-of-25-on-80-gives-55",
    )
    assert pull.title == TITLE
    assert re.search(r"^Fixes #1$", job.body, re.MULTILINE)
    assert len(job.body) <= BODY_LIMIT


def test_its_body_says_what_was_asked_and_what_was_checked(job: Job) -> None:
    assert "Asked for by mona in #1" in job.body
    assert "✅ **The tests pass.** `python3 -m pytest -q`" in job.body
    assert "exited with 0 after" in job.body
    assert "4 passed" in job.body
    assert "run by Drydock in a fresh process after Aider had ended" in job.body


def test_its_body_says_how_it_was_made(job: Job) -> None:
    run = job.run
    assert f"- Model: `{MODEL}`; " in job.body
    assert re.search(r"[\d,]+ tokens in, [\d,]+ out in \d calls, \$0\.\d+", job.body)
    assert "- Machine: `gvisor`, without network or credentials" in job.body
    assert f"template `{(run.template_digest or '')[:12]}`" in job.body
    assert "- Egress: nothing was refused" in job.body
    assert f"- Base: `main` at {job.base_sha[:10]}" in job.body
    assert f"- Brief: SHA-256 `{run.brief_sha256}`" in job.body
    assert f"- Manifest: SHA-256 `{run.manifest_sha256}`" in job.body
    assert run.id in job.body


def test_its_body_says_how_to_ask_for_changes(job: Job) -> None:
    assert "### Asking for changes" in job.body
    assert "in a comment here (`/aider …`), on a line of the diff, or in a review" in job.body


def test_the_loop_was_gone_through_twice_and_both_commits_are_listed(job: Job) -> None:
    first, second = commits_of(job)
    assert first["subject"].startswith("fix: ")
    for commit in (first, second):
        assert f"- {commit['sha'][:10]} " in job.body
    assert "price * (1 - percent / 100)" in job.repo.file("pricing.py", job.pull.head_ref).decode()


def test_the_check_run_stands_on_the_head(job: Job) -> None:
    (check,) = job.pull.checks
    assert (check.name, check.status, check.conclusion) == ("Drydock", "completed", "success")
    assert check.external_id == job.run.id
    assert check.app is job.harbour.stage.connection.app.app


# --- what git holds ---------------------------------------------------------------------------


def commits_of(job: Job) -> list[dict[str, str]]:
    fields = "%H%x1f%an%x1f%ae%x1f%cn%x1f%ce%x1f%s%x1f%(trailers:unfold)%x1e"
    log = job.repo.git.text(
        "log", "--reverse", f"--format={fields}", f"{job.base_sha}..{job.pull.head_sha}"
    )
    names = ("sha", "author", "email", "committer", "committer_email", "subject", "trailers")
    lines = (line.strip() for line in log.split("\x1e"))
    return [dict(zip(names, line.split("\x1f"), strict=True)) for line in lines if line]


def test_commits_are_ours_with_the_requester_as_co_author(job: Job) -> None:
    mona = job.mona.user
    for commit in commits_of(job):
        assert (commit["author"], commit["email"]) == ("Drydock", "drydock@noreply.invalid")
        assert (commit["committer"], commit["committer_email"]) == (
            "Drydock",
            "drydock@noreply.invalid",
        )
        trailers = commit["trailers"].strip().splitlines()
        assert trailers[0] == f"Co-authored-by: mona <{mona.id}+mona@users.noreply.github.com>"
        assert f"Drydock-Run: {job.run.id}" in trailers


def test_one_ref_was_pushed_once_and_the_base_is_as_it_was(job: Job) -> None:
    assert job.repo.git.heads() == {"main": job.base_sha, job.pull.head_ref: job.pull.head_sha}
    pushes = [d for d in job.harbour.github.deliveries if d.event == "push"]
    assert len(pushes) == 1


# --- what was lent, and what was kept ---------------------------------------------------------


def test_each_token_was_for_this_repository_and_one_step_and_is_revoked(job: Job) -> None:
    tokens = [t for t in job.harbour.github.world.tokens.values() if t.installation is not None]
    allowed = [dict(scope.permissions) for scope in Scope]
    assert tokens
    for token in tokens:
        assert token.repository_ids == frozenset({job.repo.id})
        assert token.permissions in allowed
        assert token.revoked
    writing = [t for t in tokens if t.permissions.get("contents") == "write"]
    assert len(writing) == 1


def test_github_would_have_understood_every_request(job: Job) -> None:
    contract = Contract(find(CHECKOUT, DESCRIPTION))
    assert contract.violations(job.harbour.github.recorder.exchanges) == []


def secrets_of(job: Job) -> dict[str, bytes]:
    stage = job.harbour.stage
    folder = stage.folder
    return {
        "webhook secret": (folder / "webhook-secret").read_bytes(),
        "model key": (folder / "model-key").read_bytes(),
        "private key": (folder / "app.pem").read_bytes().splitlines()[2],
        **{f"token {i}": t.encode() for i, t in enumerate(job.harbour.github.world.tokens)},
    }


@pytest.mark.parametrize("which", ["job", "spied"])
def test_no_secret_is_in_any_file_of_the_host_or_in_the_log(
    which: str, request: pytest.FixtureRequest
) -> None:
    job: Job = request.getfixturevalue(which)
    secrets = secrets_of(job)
    assert len(secrets) > 5
    files = [path for path in job.harbour.state_dir.rglob("*") if path.is_file()]
    assert any(path.name == "aider.log" for path in files)
    for path in (*files, job.harbour.log_path):
        data = path.read_bytes()
        assert [name for name, value in secrets.items() if value in data] == [], path


def test_the_model_was_reached_with_the_key_that_the_machine_never_saw(spied: Job) -> None:
    key = (spied.harbour.stage.folder / "model-key").read_text()
    assert {r.headers["authorization"] for r in spied.harbour.model.requests} == {f"Bearer {key}"}


def test_nothing_that_a_command_in_the_machine_can_see_is_a_secret(spied: Job) -> None:
    seen = spied.repo.file("seen.txt", spied.pull.head_ref)
    assert b"PATH=" in seen
    assert [name for name, value in secrets_of(spied).items() if value in seen] == []
    assert b"DRYDOCK_" not in seen
    assert "its tests pass" in spied.harbour.status_of(spied.issue)
    assert "- Machine: `bubblewrap`" in spied.body


def test_the_machine_is_gone_and_the_run_can_be_traced(job: Job) -> None:
    assert job.harbour.provider().list() == []
    with reading(job.harbour.engine) as session:
        (attempt,) = attempts.of_run(session, job.run.id)
        entries = runs.log_entries(session, job.run.id)
    assert (attempt.provider, attempt.outcome) == ("gvisor", "published")
    assert [e.text for e in entries if e.kind == "state"][-1] == "publish → published"
    assert job.run.test_exit_code == 0
    assert job.run.refusals == 0
    assert job.run.cost_usd


def test_the_audit_is_whole(job: Job) -> None:
    assert verify(job.harbour.state_dir / "audit.jsonl").ok

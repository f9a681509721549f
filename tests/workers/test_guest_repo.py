"""The repository inside a machine, with the `fake` provider: real git, real files."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sandbox.provider import GuestMisbehaved, MachineSpec, Sandbox, Template
from sandbox.providers.fake import FakeProvider
from tests.workers.conftest import Files, Repo, link
from workers import guest_repo
from workers.checkout import Bundle, Checkout, Source, check_out, lock_mirror
from workers.gate import GateRules, Quarantine, judge, quarantine, read_facts
from workers.git import Git
from workers.guest_repo import GuestRepoFailed, take_bundle

FILES: Files = {
    b"a.txt": b"one\n",
    b"crlf.txt": b"one\r\ntwo\r\n",
    b"dir with/caf\xe9 [1].txt": b"a\r\nb\r\n",
    b"mixed.txt": b"a\r\nb\n",
    b".env": b"KEY=1\n",
    b"sub/.env": b"SUB=1\n",
    b".aider.conf.yml": b"test-cmd: id\n",
    b".aiderstuff/x": b"1",
    b"link": link(b"a.txt"),
}


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Sandbox]:
    provider = FakeProvider(tmp_path / "machines")
    template = Template("none", "0" * 64, tmp_path)
    made = provider.create(MachineSpec("run-1", template, ttl_s=120), lambda duplex: duplex.close())
    yield made
    made.kill()


class Inside:
    """One machine with the repository cloned into it, and the mirror it came from."""

    def __init__(
        self, git: Git, root: Path, server: Repo, machine: Sandbox, depth: int = 0
    ) -> None:
        self.git, self.root, self.machine = git, root, machine
        source = Source(server.path.as_uri(), 7)
        with lock_mirror(root / "state", source) as lock:
            checkout = check_out(git, lock, "main", root / "in.bundle", depth=depth)
        assert isinstance(checkout, Checkout)
        self.mirror, self.base = checkout.mirror, checkout.base_sha
        self.clone(checkout.bundle)

    def clone(self, bundle: Bundle) -> None:
        with bundle.path.open("rb") as data:
            guest_repo.clone(self.machine, bundle, data)

    def sh(self, script: str) -> str:
        done = self.machine.exec(["sh", "-c", script], cwd=guest_repo.REPO_DIR)
        assert done.exit_code == 0, done.stderr
        return done.stdout.decode("utf-8", "backslashreplace").strip()

    def take(self) -> Quarantine | None:
        out = io.BytesIO()
        if not take_bundle(self.machine, self.base, out):
            return None
        path = self.root / "out.bundle"
        path.write_bytes(out.getvalue())
        taken = quarantine(self.git, path, self.base, self.mirror, self.root / "q.git")
        assert isinstance(taken, Quarantine), taken
        return taken


@pytest.fixture
def inside(git: Git, tmp_path: Path, server_repo: Repo, machine: Sandbox) -> Callable[..., Inside]:
    def make(files: Files = FILES, depth: int = 0) -> Inside:
        parent = server_repo.read("main")
        server_repo.commit(files, parents=[parent], ref="refs/heads/main")
        return Inside(git, tmp_path, server_repo, machine, depth)

    return make


def test_the_repository_stands_at_its_base_on_a_branch(inside: Callable[..., Inside]) -> None:
    here = inside()
    assert here.sh("git rev-parse HEAD") == here.base
    assert here.sh("git symbolic-ref HEAD") == guest_repo.OUT_REF
    assert here.sh("git status --porcelain") == ""
    assert here.sh("cat a.txt; readlink link") == "one\na.txt"
    assert here.sh("git rev-list --count HEAD") == "2"
    assert here.sh("git remote") == ""
    assert here.sh("ls ../job") == ""


def test_a_shallow_bundle_stands_too_and_comes_out(inside: Callable[..., Inside]) -> None:
    here = inside(depth=1)
    assert here.sh("git rev-list --count HEAD") == "1"
    here.sh("echo two > a.txt && git commit -qam change")
    taken = here.take()
    assert taken is not None
    assert len(taken.commits) == 1


def test_commits_come_out_and_pass_the_gate(inside: Callable[..., Inside]) -> None:
    here = inside()
    guest_repo.prepare_for_agent(here.machine)
    here.sh("echo two > a.txt && git commit -qam change && echo x > n && git add n")
    here.sh("git commit -qm 'new file'")
    facts = guest_repo.read_facts(here.machine, here.base)
    assert (facts.commits, facts.dirty) == (2, ())
    taken = here.take()
    assert taken is not None
    assert taken.head_sha == facts.head
    assert judge(read_facts(here.git, taken), GateRules()) == ()


def test_no_commit_is_nothing_to_take(inside: Callable[..., Inside]) -> None:
    here = inside()
    here.sh("echo two > a.txt")
    assert here.take() is None


def test_a_branch_set_back_is_nothing_to_take(inside: Callable[..., Inside]) -> None:
    here = inside()
    here.sh("git reset -q --hard HEAD~1")
    assert here.take() is None


def test_a_detached_head_comes_out_all_the_same(inside: Callable[..., Inside]) -> None:
    here = inside()
    here.sh("git checkout -q --detach && echo 2 > a.txt && git commit -qam change")
    taken = here.take()
    assert taken is not None
    assert len(taken.commits) == 1


def test_a_bundle_beyond_the_cap_ends_the_machine(inside: Callable[..., Inside]) -> None:
    here = inside()
    here.sh("head -c 100000 /dev/urandom > big && git add big && git commit -qm big")
    with pytest.raises(GuestMisbehaved):
        take_bundle(here.machine, here.base, io.BytesIO(), max_bytes=10_000)


def test_what_configures_aider_is_away_while_it_runs(inside: Callable[..., Inside]) -> None:
    here = inside()
    here.sh("echo 'UNTRACKED=1' > .aider.input.history; echo H > \"$HOME/.env\"")
    hidden = guest_repo.prepare_for_agent(here.machine)
    assert set(hidden) == {".env", ".aider.conf.yml", ".aiderstuff/x"}
    assert here.sh("ls -A") == "\n".join(
        [".git", "a.txt", "crlf.txt", "dir with", "link", "mixed.txt", "sub"]
    )
    assert here.sh('ls -A "$HOME"') == ".gitconfig"
    assert here.sh("git status --porcelain") == ""
    assert here.sh("cat sub/.env") == "SUB=1"
    here.sh("echo two > a.txt && git commit -qam change && mkdir .aider.tags.cache.v4")
    guest_repo.settle_after_agent(here.machine)
    assert here.sh("cat .env .aider.conf.yml") == "KEY=1\ntest-cmd: id"
    assert here.sh("git status --porcelain --untracked-files=no") == ""
    assert here.sh("git diff --stat HEAD~1 HEAD -- .env .aider.conf.yml") == ""
    assert here.sh("ls -d .aider*") == ".aider.conf.yml\n.aider.input.history\n.aiderstuff"


def test_a_link_named_like_a_configuration_is_hidden_too(inside: Callable[..., Inside]) -> None:
    here = inside({b"a.txt": b"1", b".aider.conf.yml": link(b"a.txt"), b".env": link(b"nowhere")})
    assert set(guest_repo.prepare_for_agent(here.machine)) == {".aider.conf.yml", ".env"}
    assert here.sh("ls -A") == ".git\na.txt"
    guest_repo.settle_after_agent(here.machine)
    assert here.sh("readlink .env") == "nowhere"


def test_leftovers_are_named_and_thrown_away(inside: Callable[..., Inside]) -> None:
    here = inside()
    here.sh("echo installed > from-setup && mkdir -p ign && printf 'ign/\\n' > .git/info/exclude")
    here.sh("echo kept > ign/kept")
    guest_repo.prepare_for_agent(here.machine)
    here.sh("echo two > a.txt; echo new > 'new file'; mkdir d; echo x > d/y; git rm -q mixed.txt")
    assert set(guest_repo.list_leftovers(here.machine)) == {
        "a.txt",
        "mixed.txt",
        "new file",
        "d/y",
    }
    guest_repo.settle_after_agent(here.machine)
    assert guest_repo.list_leftovers(here.machine) == ()
    assert here.sh("cat a.txt from-setup ign/kept; ls 'new file' 2>&1 || true").startswith(
        "one\ninstalled\nkept\nls: "
    )


def test_crlf_survives_an_edit_that_wrote_line_feeds(inside: Callable[..., Inside]) -> None:
    here = inside()
    guest_repo.prepare_for_agent(here.machine)
    here.sh(
        "printf 'one\\nTWO\\nno end' > crlf.txt; printf 'a\\nB\\n' > dir*/*; printf 'x\\n' > lf"
    )
    here.sh("touch -d '1 hour ago' crlf.txt dir*/*")  # so that git trusts the times it notes
    here.sh("git add -A . && git commit -qm change")
    assert guest_repo.list_leftovers(here.machine) == ()
    assert here.sh("git diff --numstat HEAD~1 HEAD -- crlf.txt | cut -f 1,2") == "2\t1"
    assert here.sh("git cat-file blob HEAD:crlf.txt | od -c | head -1").count("\\r") == 2
    assert here.sh("git cat-file blob HEAD:lf | od -c | grep -c r || true") == "0"
    assert here.sh("git ls-files --eol | grep -c '^i/crlf'") == "2"
    assert here.sh('git cat-file blob "HEAD:$(echo dir*/*)" | od -c').count("\\r") == 2
    guest_repo.settle_after_agent(here.machine)
    assert here.sh("od -c crlf.txt").count("\\r") == 2
    assert here.sh("git status --porcelain") == ""


def test_a_failing_step_names_itself(inside: Callable[..., Inside]) -> None:
    here = inside()
    here.sh("rm -rf .git")
    with pytest.raises(GuestRepoFailed, match="git rev-parse HEAD in the machine ended with 128"):
        guest_repo.read_facts(here.machine, here.base)


def test_three_thousand_files_go_in_and_one_change_comes_out(
    inside: Callable[..., Inside], server_repo: Repo
) -> None:
    stream = b"commit refs/heads/main\ncommitter A <a@b.c> 1 +0000\ndata 0\n"
    for number in range(3_000):
        stream += b"M 100644 inline d%d/f%d\ndata 4\nx\r\ny\n" % (number % 40, number)
    server_repo.git("fast-import", "--quiet", "--force", stdin=stream)
    here = inside({b"z": b"1"})
    guest_repo.prepare_for_agent(here.machine)
    here.sh("echo 2 > z && git commit -qam change")
    assert here.take() is not None

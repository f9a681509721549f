"""One bare repository on disk, asked and changed through git itself.

The process environment is never inherited, no user or system configuration is read, and every
call has an argument list. Facts come back as values.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from demo.github.refs import read_refs

EMPTY_TREE: Final = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
ZERO: Final = "0" * 40
_TIMEOUT_S: Final = 120
_FULL: Final = re.compile(r"[0-9a-f]{40}(\.\.[0-9a-f]{40})?")
_PLAIN: Final = re.compile(r"refs/[\w./#@+-]+")
_LOG_FORMAT: Final = "%H%x1f%T%x1f%P%x1f%an%x1f%ae%x1f%at%x1f%cn%x1f%ce%x1f%ct%x1f%B"

PRE_RECEIVE: Final = r"""#!/bin/sh
# Refuses what GitHub refuses: protected branches, and workflow files without that permission.
while read -r old new ref; do
  if grep -qxF -- "$ref" "$GIT_DIR/protected-refs" 2>/dev/null; then
    echo "error: GH006: Protected branch update failed for $ref." >&2
    exit 1
  fi
  case "$new" in *[!0]*) ;; *) continue ;; esac
  [ "$LOCAL_GITHUB_WORKFLOWS" = write ] && continue
  path=$(git log --format= --name-only "$new" --not --all -- .github/workflows | sed -n 1p)
  if [ -n "$path" ]; then
    echo "refusing to allow a GitHub App to create or update workflow \`$path\`" \
      "without \`workflows\` permission" >&2
    exit 1
  fi
done
"""


class GitFailed(Exception):
    """git refused or could not do what was asked; the message is git's own."""


@dataclass(frozen=True)
class Identity:
    name: str
    email: str
    at: int


@dataclass(frozen=True)
class Commit:
    sha: str
    tree: str
    parents: tuple[str, ...]
    author: Identity
    committer: Identity
    message: str


@dataclass(frozen=True)
class TreeEntry:
    mode: str
    kind: str
    sha: str
    size: int | None
    path: str


def git_environment() -> dict[str, str]:
    """Return the whole environment that git is given."""
    return {
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "HOME": "/nonexistent",
        "LC_ALL": "C.UTF-8",
        "TZ": "UTC",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": "/dev/null",
        "GIT_TERMINAL_PROMPT": "0",
    }


class GitRepo:
    """A bare repository. Every method may raise GitFailed unless it says what else it returns."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._told: dict[tuple[str, ...], subprocess.CompletedProcess[bytes]] = {}

    @classmethod
    def create(cls, path: Path, default_branch: str) -> GitRepo:
        """Make an empty bare repository with GitHub's rules for pushes."""
        repo = cls(path)
        path.mkdir(parents=True)
        repo.run("init", "--quiet", "--bare", f"--initial-branch={default_branch}", ".")
        config = {
            "http.receivepack": "true",
            "http.uploadpack": "true",
            "uploadpack.allowAnySHA1InWant": "true",
            "uploadpack.allowFilter": "true",
            "receive.hideRefs": "refs/pull",
            "receive.fsckObjects": "true",
            "receive.autogc": "false",
            "gc.auto": "0",
            "core.quotePath": "false",
        }
        lines = [f"[{k.split('.')[0]}]\n\t{k.split('.')[1]} = {v}\n" for k, v in config.items()]
        with (path / "config").open("a", encoding="utf-8") as file:
            file.writelines(lines)
        hook = path / "hooks" / "pre-receive"
        hook.parent.mkdir(exist_ok=True)
        hook.write_text(PRE_RECEIVE, encoding="utf-8")
        hook.chmod(0o755)
        return repo

    def run(
        self,
        *args: str,
        stdin: bytes | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> bytes:
        return _output(args, self._call(args, stdin, environment))

    def text(self, *args: str) -> str:
        return self.run(*args).decode("utf-8", "replace").strip()

    def succeeds(self, *args: str) -> bool:
        return self._call(args, None, None).returncode == 0

    def _look(self, *args: str, of: str | tuple[str, ...]) -> subprocess.CompletedProcess[bytes]:
        """Ask about objects, once where they are asked by full names, which never change.

        A status above 1 is trouble (the object may still come), and not remembered.
        """
        names = (of,) if isinstance(of, str) else of
        found = self._told.get(args)
        if found is None:
            found = self._call(args, None, None)
            if found.returncode <= 1 and all(map(_FULL.fullmatch, names)):
                self._told[args] = found
        return found

    def _read(self, *args: str, of: str | tuple[str, ...]) -> bytes:
        return _output(args, self._look(*args, of=of))

    def _call(
        self, args: tuple[str, ...], stdin: bytes | None, environment: Mapping[str, str] | None
    ) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            ["git", "-C", str(self.path), *args],
            input=stdin if stdin is not None else b"",
            capture_output=True,
            env={**git_environment(), **(environment or {})},
            timeout=_TIMEOUT_S,
            check=False,
        )

    # refs

    def refs(self, prefix: str = "refs/") -> dict[str, str]:
        """Return full ref names and what they point to, sorted by name."""
        found = read_refs(self.path, prefix)
        if found is not None:
            return found
        out = self.text("for-each-ref", "--format=%(refname) %(objectname)", prefix)
        pairs = (line.rsplit(" ", 1) for line in out.splitlines())
        return {pair[0]: pair[1] for pair in pairs}

    def heads(self) -> dict[str, str]:
        start = len("refs/heads/")
        return {name[start:]: sha for name, sha in self.refs("refs/heads/").items()}

    def head(self, branch: str) -> str | None:
        return self._resolve_ref(f"refs/heads/{branch}")

    def commit_sha(self, name: str) -> str | None:
        """Return the commit that a branch, tag, ref or SHA names, or None."""
        if name.startswith("-"):
            return None
        refs = (f"refs/heads/{name}", f"refs/tags/{name}", f"refs/{name}")
        found = (self._resolve_ref(ref) for ref in refs)
        return next((sha for sha in found if sha), None) or self._peel(name)

    def object_type(self, sha: str) -> str | None:
        done = self._look("cat-file", "-t", sha, of=sha)
        return done.stdout.decode().strip() if done.returncode == 0 else None

    def _resolve_ref(self, ref: str) -> str | None:
        """Return the commit that a ref names; git is asked only when there is one, or may be."""
        refs = read_refs(self.path, ref) if _PLAIN.fullmatch(ref) else None
        if refs is None:
            return self._peel(ref)
        return self._peel(refs[ref]) if ref in refs else None

    def _peel(self, name: str) -> str | None:
        """Return the commit that a name or an annotated tag stands for."""
        if _FULL.fullmatch(name) and self.object_type(name) == "commit":
            return name
        return self._resolve(f"{name}^{{commit}}")

    def _resolve(self, expression: str) -> str | None:
        done = self._call(("rev-parse", "--verify", "--quiet", expression), None, None)
        return done.stdout.decode().strip() if done.returncode == 0 else None

    def valid_ref(self, ref: str) -> bool:
        return self.succeeds("check-ref-format", ref)

    def update_ref(self, ref: str, new: str, old: str | None = None) -> None:
        self.run("update-ref", ref, new, *([] if old is None else [old]))

    def delete_ref(self, ref: str) -> None:
        self.run("update-ref", "-d", ref)

    def write_protected(self, branches: Iterable[str]) -> None:
        lines = "".join(f"refs/heads/{branch}\n" for branch in branches)
        (self.path / "protected-refs").write_text(lines, encoding="utf-8")

    def fetch_from(self, other: GitRepo, sha: str) -> None:
        """Bring a commit of another repository on this disk over."""
        self.run("fetch", "--quiet", "--no-tags", str(other.path), sha)

    # commits

    def commit(self, sha: str) -> Commit:
        return self._log("--max-count=1", sha, of=sha)[0]

    def commits(self, base: str | None, head: str, limit: int = 250) -> list[Commit]:
        """Return the commits of `head` that `base` lacks, oldest first."""
        span = head if base is None else f"{base}..{head}"
        return self._log("--topo-order", "--reverse", f"--max-count={limit}", span, of=span)

    def history(self, head: str, path: str | None = None, limit: int = 1000) -> list[Commit]:
        """Return a commit and its ancestors, newest first."""
        return self._log(f"--max-count={limit}", head, *(["--", path] if path else []), of=head)

    def _log(self, *args: str, of: str) -> list[Commit]:
        options = ("-z", "--no-show-signature", f"--format={_LOG_FORMAT}")
        out = self._read("log", *options, *args, of=of)
        records = out.decode("utf-8", "replace").split("\0")
        return [_commit_from(record) for record in records if record]

    def count(self, span: str) -> int:
        return int(self._read("rev-list", "--count", span, of=span))

    def merge_base(self, one: str, other: str) -> str | None:
        done = self._look("merge-base", one, other, of=(one, other))
        return done.stdout.decode().strip() if done.returncode == 0 else None

    def is_ancestor(self, older: str, newer: str) -> bool:
        asked = ("merge-base", "--is-ancestor", older, newer)
        return self._look(*asked, of=(older, newer)).returncode == 0

    def merge_tree(self, one: str, other: str) -> str | None:
        """Return the tree of merging two commits, or None when they conflict."""
        done = self._look("merge-tree", "--write-tree", "-z", one, other, of=(one, other))
        if done.returncode > 1:
            raise GitFailed(done.stderr.decode("utf-8", "replace"))
        return done.stdout.split(b"\0")[0].decode().strip() if done.returncode == 0 else None

    def commit_tree(
        self,
        tree: str,
        parents: Iterable[str],
        message: str,
        author: Identity,
        committer: Identity,
    ) -> str:
        parent_args = [arg for parent in parents for arg in ("-p", parent)]
        environment = {
            "GIT_AUTHOR_NAME": author.name,
            "GIT_AUTHOR_EMAIL": author.email,
            "GIT_AUTHOR_DATE": f"{author.at} +0000",
            "GIT_COMMITTER_NAME": committer.name,
            "GIT_COMMITTER_EMAIL": committer.email,
            "GIT_COMMITTER_DATE": f"{committer.at} +0000",
        }
        args = ("commit-tree", tree, *parent_args)
        return self.run(*args, stdin=message.encode(), environment=environment).decode().strip()

    # trees and blobs

    def tree_sha(self, name: str) -> str | None:
        return None if name.startswith("-") else self._resolve(f"{name}^{{tree}}")

    def ls_tree(self, tree: str, *, recursive: bool = False, trees: bool = True) -> list[TreeEntry]:
        options = ["-r"] if recursive else []
        options += ["-t"] if recursive and trees else []
        out = self._read("ls-tree", "-z", "--long", "--full-tree", *options, tree, of=tree)
        return [_entry_from(line) for line in out.split(b"\0") if line]

    def entry(self, commit: str, path: str) -> TreeEntry | None:
        asked = ("ls-tree", "-z", "--long", "--full-tree", commit, "--", path.strip("/"))
        out = self._read(*asked, of=commit)
        entries = [_entry_from(line) for line in out.split(b"\0") if line]
        return entries[0] if entries else None

    def read_blob(self, sha: str) -> bytes:
        return self._read("cat-file", "blob", sha, of=sha)

    def read_file(self, ref: str, path: str) -> bytes:
        """Return a file's bytes. KeyError when the ref or the path is not there."""
        sha = self.commit_sha(ref)
        entry = self.entry(sha, path) if sha else None
        if entry is None or entry.kind != "blob":
            raise KeyError(path)
        return self.read_blob(entry.sha)

    def write_blob(self, data: bytes) -> str:
        return self.run("hash-object", "-w", "--stdin", stdin=data).decode().strip()

    def write_tree(self, base: str | None, changes: Iterable[tuple[str, str | None, str]]) -> str:
        """Write a tree from a base tree and (mode, sha or None to delete, path) changes."""
        index = self.path / f"index-{id(changes):x}"
        environment = {"GIT_INDEX_FILE": str(index)}
        lines = [
            (f"0 {ZERO}\t{path}" if sha is None else f"{mode} {sha}\t{path}").encode()
            for mode, sha, path in changes
        ]
        try:
            self.run("read-tree", base or "--empty", environment=environment)
            stdin = b"".join(line + b"\0" for line in lines)
            self.run("update-index", "-z", "--index-info", stdin=stdin, environment=environment)
            return self.run("write-tree", environment=environment).decode().strip()
        finally:
            index.unlink(missing_ok=True)


def _output(args: tuple[str, ...], done: subprocess.CompletedProcess[bytes]) -> bytes:
    if done.returncode != 0:
        raise GitFailed(done.stderr.decode("utf-8", "replace").strip() or f"git {args[0]}")
    return done.stdout


def _commit_from(record: str) -> Commit:
    sha, tree, parents, an, ae, at, cn, ce, ct, message = record.split("\x1f", 9)
    return Commit(
        sha=sha.strip(),
        tree=tree,
        parents=tuple(parents.split()),
        author=Identity(an, ae, int(at)),
        committer=Identity(cn, ce, int(ct)),
        message=message.rstrip("\n"),
    )


def _entry_from(line: bytes) -> TreeEntry:
    facts, path = line.split(b"\t", 1)
    mode, kind, sha, size = facts.decode().split()
    length = None if size == "-" else int(size)
    return TreeEntry(mode, kind, sha, length, path.decode("utf-8", "replace"))

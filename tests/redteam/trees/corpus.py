"""Hostile and odd trees and bundles, built by code, each with exactly what the gate must say.

    Tree(name, build, expected)     `build` commits to a yard; the verdict is the set `expected`
    Parcel(name, build, rule)       `build` writes a bundle file; it is refused whole, by `rule`

Secrets are put together at run time, so that none stands in this file.
"""

from __future__ import annotations

import base64
import hashlib
import secrets
import string
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.workers.conftest import OUT, Files, Node, link, submodule
from tests.workers.test_gate import Yard, header, pack, packed
from workers.gate import Allowance, GateRules, Level, PathRule, Rule
from workers.gate.values import MIB

R, W = Level.REFUSE, Level.WARN
Verdict = tuple[Rule, str, Level]
CANARY = f"canary-{secrets.token_hex(12)}"

BASE: Files = {
    b"a.txt": b"one\n",
    b"README.md": b"# It\n",
    b"src/app.py": b"x = 1\n",
    b"src/caf\xc3\xa9.py": b"y = 1\n",
    b"docs/link": link(b"../a.txt"),
    b".github/workflows/ci.yml": b"on: push\n",
    b".github/drydock.yml": b"test: make\n",
    b".gitattributes": b"* text=auto\n",
    b"package.json": b'{"name": "it", "scripts": {"test": "jest", "postinstall": "node a.js"}}\n',
    b"package-lock.json": b"{}\n",
    b"run.sh": Node("100644", b"#!/bin/sh\n"),
    b"tests/test_app.py": (
        b"def test_one():\n    assert f(1) == 1\n\n\ndef test_two():\n    assert f(2) == 4\n"
    ),
    b"tests/test_other.py": b"def test_three():\n    assert f(3) == 9\n",
    b"conftest.py": b"import pytest\n",
    b"vendor/mod": submodule(),
}


@dataclass(frozen=True)
class Tree:
    name: str
    build: Callable[[Yard], object]
    expected: frozenset[Verdict]
    rules: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Parcel:
    name: str
    build: Callable[[Yard], Path]
    rule: Rule
    rules: Mapping[str, Any] = field(default_factory=dict)


TREES: list[Tree] = []
PARCELS: list[Parcel] = []


def tree(
    name: str, files: Files, *expected: Verdict, drop: tuple[bytes, ...] = (), **rules: Any
) -> None:
    """Add a tree made by one commit on the base."""
    TREES.append(Tree(name, lambda yard: yard.change(files, drop=drop), frozenset(expected), rules))


def commits(name: str, build: Callable[[Yard], object], *expected: Verdict, **rules: Any) -> None:
    """Add a tree made by several commits."""
    TREES.append(Tree(name, build, frozenset(expected), rules))


def parcel(rule: Rule, **rules: Any) -> Callable[[Callable[[Yard], Path]], None]:
    def add(build: Callable[[Yard], Path]) -> None:
        PARCELS.append(Parcel(build.__name__, build, rule, rules))

    return add


def random_text(length: int, alphabet: str = string.ascii_letters + string.digits) -> str:
    return "".join(secrets.choice(alphabet) for _ in range(length))


# ---- honest ----------------------------------------------------------------------------------

tree("an ordinary edit", {b"src/app.py": b"x = 2\n"})
tree("a new file in a new folder", {b"new/deep/file.py": b"z = 1\n"})
tree("a removal", {}, drop=(b"a.txt",))
tree("a rename that only changes the case", {b"readme.md": b"# It\n"}, drop=(b"README.md",))
tree("a rename in Unicode forms", {b"src/cafe\xcc\x81.py": b"1"}, drop=(b"src/caf\xc3\xa9.py",))
tree("names in other scripts", {"日本/ファイル.py".encode(): b"1", "Ünïcode".encode(): b"2"})
tree("an empty file", {b"empty": b""})
tree("lines that end in CRLF", {b"src/app.py": b"x = 2\r\ny = 3\r\n"})
tree("a file without a last line feed", {b"a.txt": b"two"})
tree("a symlink inside the tree", {b"l": link(b"src/app.py")})
tree("a symlink to nothing", {b"l": link(b"missing")})
tree("a file instead of a folder", {b"src": b"1"}, drop=(b"src/app.py", b"src/caf\xc3\xa9.py"))
tree("a link in a circle", {b"l": link(b"l")})
tree("a new test", {b"tests/test_new.py": b"def test_new():\n    assert f(4) == 16\n"})
tree(
    "a test moved to another file",
    {b"tests/test_moved.py": BASE[b"tests/test_other.py"]},
    drop=(b"tests/test_other.py",),
)
tree("a longer test file", {b"tests/test_app.py": BASE[b"tests/test_app.py"] + b"\n\nX = 1\n"})  # type: ignore[operator]
tree("a lock with its manifest", {b"x/Cargo.lock": b"1", b"x/Cargo.toml": b"2"})
tree("a workspace's lock", {b"Cargo.lock": b"1", b"crates/a/Cargo.toml": b"2"})
tree("attributes that run nothing", {b"x/.gitattributes": b"*.sh text eol=lf\n*.py diff=python\n"})
tree(
    "a package with scripts that nobody runs by installing",
    {b"x/package.json": b'{"scripts": {"build": "tsc"}}'},
)
tree("an install script that was there", {b"package.json": BASE[b"package.json"] + b"\n"})  # type: ignore[operator]
tree("a name that only begins like a protected one", {b".github/workflows-old/a.yml": b"1"})
tree("a workflow that is none", {b"docs/.github/workflows/a.yml": b"1"})

# ---- protected paths -------------------------------------------------------------------------

P = Rule.PROTECTED_PATH
for path in (
    b".github/workflows/ci.yml",
    b".github/workflows/new/deep.yml",
    b".github/actions/setup/action.yml",
    b".github/drydock.yml",
    b".github/CODEOWNERS",
    b"CODEOWNERS",
    b".husky/pre-commit",
    b"web/.husky/pre-push",
    b".githooks/post-merge",
    b".pre-commit-config.yaml",
    b"lefthook.yml",
    b".vscode/tasks.json",
    b"sub/.vscode/launch.json",
    b".idea/runConfigurations/all.xml",
    b".devcontainer/devcontainer.json",
    b".envrc",
    b".env",
    b"deploy/.env.production",
    b".npmrc",
    b".yarnrc.yml",
    b".cargo/config.toml",
    b".claude/settings.json",
    b".mcp.json",
):
    tree(f"protected: {path.decode()}", {path: b"changed\n"}, (P, path.decode(), R))
for path in (b".env.example", b".vscode/settings.json", b"AGENTS.md", b".gitlab-ci.yml"):
    tree(f"with care: {path.decode()}", {path: b"changed\n"}, (P, path.decode(), W))

tree(
    "a protected file removed", {}, (P, ".github/workflows/ci.yml", R),
    drop=(b".github/workflows/ci.yml",),
)  # fmt: skip
tree(
    "another case of a protected folder",
    {b".GitHub/Workflows/x.yml": b"1"},
    (P, ".GitHub/Workflows/x.yml", R),
    (Rule.NAME_COLLISION, ".GitHub/Workflows/x.yml", R),
)
tree(
    "an invisible character in a protected folder",
    {".github/work\u200dflows/x.yml".encode(): b"1"},
    (P, ".github/work\\u200dflows/x.yml", R),
    (Rule.NAME_COLLISION, ".github/work\\u200dflows/x.yml", R),
    (Rule.PATH_NAME, ".github/work\\u200dflows/x.yml", W),
)
tree(
    "a link in the place of a protected folder",
    {b".github/workflows": link(b"../docs")},
    (P, ".github/workflows", R),
    (P, ".github/workflows/ci.yml", R),
    drop=(b".github/workflows/ci.yml",),
)
tree(
    "a file in the place of the folder above",
    {b".github": b"1"},
    (P, ".github", R),
    (P, ".github/workflows/ci.yml", R),
    (P, ".github/drydock.yml", R),
    drop=(b".github/workflows/ci.yml", b".github/drydock.yml"),
)


def _there_and_back(yard: Yard) -> None:
    yard.change({b".github/workflows/evil.yml": b"x"})
    yard.change({}, drop=[b".github/workflows/evil.yml"])


commits("a workflow that a later commit takes back", _there_and_back,
        (P, ".github/workflows/evil.yml", R))  # fmt: skip
tree(
    "the repository protects more",
    {b"deploy/prod.tf": b"1"}, (P, "deploy/prod.tf", R),
    paths=(PathRule("deploy/**"),),
)  # fmt: skip
tree(
    "the repository allows what the defaults refuse",
    {b".npmrc": b"1"}, paths=(PathRule(".npmrc", Level.ALLOW),),
)  # fmt: skip
tree(
    "the repository cannot allow what the operator refuses",
    {b".github/workflows/x.yml": b"1"}, (P, ".github/workflows/x.yml", R),
    paths=(PathRule(".github/workflows/**", Level.ALLOW),),
)  # fmt: skip
tree(
    "the operator's floor warns and the repository refuses",
    {b"x.py": b"1"}, (P, "x.py", R),
    floor=(PathRule("*.py", W),), paths=(PathRule("x.py"),),
)  # fmt: skip
tree(
    "a person lets one path through",
    {b".npmrc": b"1", b".envrc": b"1"}, (P, ".npmrc", W), (P, ".envrc", R),
    allowances=(Allowance(".npmrc", "mona"),),
)  # fmt: skip

# ---- the agent's files -----------------------------------------------------------------------

for path in (b".aider.conf.yml", b"x/.aider.tags.cache.v4/d", b".AIDERignore"):
    tree(f"agent: {path.decode()}", {path: b"x\n"}, (Rule.AGENT_FILE, path.decode(), R))

# ---- names -----------------------------------------------------------------------------------

U, C, N = Rule.PATH_UNSAFE, Rule.NAME_COLLISION, Rule.PATH_NAME
tree("a control character", {b"a\x1b[2Jb": b"1"}, (U, "a\\x1b[2Jb", R))
tree("a line feed in a name", {b"a\nb": b"1"}, (U, "a\\nb", R))
tree("a delete character", {b"a\x7f": b"1"}, (U, "a\\x7f", R))
tree("a dot at the end", {b"src/app.py.": b"1"}, (U, "src/app.py.", R), (C, "src/app.py.", R))
tree("a space at the end", {b"new ": b"1"}, (U, "new ", R))
tree("a folder with a space at the end", {b"new /x": b"1"}, (U, "new /x", R))
tree("a backslash", {b"..\\x": b"1"}, (U, "..\\x", R))
tree("a very long name", {b"n" * 256: b"1"}, (U, "n" * 256, R))
tree("a very deep path", {b"d/" * 70 + b"f": b"1"}, (U, "d/" * 70 + "f", R))
tree("a file that git obeys, disguised", {b"x/.GITMODULES": b"1"}, (U, "x/.GITMODULES", R))
tree("another case of a file", {b"A.TXT": b"1"}, (C, "A.TXT", R))
tree("another case of a folder", {b"SRC/new.py": b"1"}, (C, "SRC/new.py", R))
tree("two new names of one form", {b"n/Q": b"1", b"n/q": b"2"}, (C, "n/Q", R), (C, "n/q", R))
tree("another Unicode form of a file", {b"src/cafe\xcc\x81.py": b"1"},
     (C, "src/cafe\u0301.py", R))  # fmt: skip
tree("a sharp s and its capital", {"straße".encode(): b"1", b"STRASSE": b"2"},
     (C, "straße", R), (C, "STRASSE", R))  # fmt: skip
tree("an invisible character", {"x\u200by".encode(): b"1"},
     (N, "x\\u200by", W))  # fmt: skip
tree("text that turns round", {"x\u202efdp.exe".encode(): b"1"}, (N, "x\\u202efdp.exe", W))
tree("bytes that are no UTF-8", {b"caf\xe9": b"1"}, (N, "caf\\xe9", W))
tree("a device of Windows", {b"src/aux.py": b"1"}, (N, "src/aux.py", W))
tree("a stream of NTFS", {b"q:stream": b"1"}, (N, "q:stream", W))

# ---- kinds -----------------------------------------------------------------------------------

S, M = Rule.SYMLINK, Rule.SUBMODULE
for target in (
    b"/etc/passwd",
    b"../x",
    b".git/hooks/x",
    b"docs/../..",
    b"C:/x",
    b"\\x",
    b"..\\..\\x",
):
    tree(f"a symlink to {target.decode()}", {b"l": link(target)}, (S, "l", R))
tree("a symlink from below", {b"docs/l": link(b"../../x")}, (S, "docs/l", R))
tree("a symlink through another", {b"p/q/up": link(b".."), b"out": link(b"p/q/up/../../x")},
     (S, "out", R))  # fmt: skip
tree("a target longer than any path", {b"l": link(b"a/" * 4_000)}, (S, "l", R))
tree("a submodule", {b"mod": submodule()}, (M, "mod", R))
tree("a submodule moved", {b"vendor/mod": submodule("2" * 40)}, (M, "vendor/mod", R))
tree("a submodule removed", {}, (M, "vendor/mod", R), drop=(b"vendor/mod",))
tree("a list of submodules", {b".gitmodules": b'[submodule "m"]\n\tpath = m\n'},
     (M, ".gitmodules", R))  # fmt: skip
tree("a file made executable", {b"run.sh": Node("100755", b"#!/bin/sh\n")},
     (Rule.EXECUTABLE, "run.sh", W))  # fmt: skip
tree("a binary", {b"x.bin": b"\0\1\2"}, (Rule.BINARY, "x.bin", W))
tree("a file over the limit", {b"big": b"x" * 101}, (Rule.LARGE_FILE, "big", R), max_file_bytes=100)
tree("a file of just the limit", {b"big": b"x" * 500}, max_file_bytes=500)
tree("a lock without its manifest", {b"package-lock.json": b"{1}\n"},
     (Rule.LOCK_FILE, "package-lock.json", W))  # fmt: skip
tree("another ecosystem's lock", {b"go.sum": b"1"}, (Rule.LOCK_FILE, "go.sum", W))
tree("a lock beside another's manifest", {b"a/go.sum": b"1", b"b/go.mod": b"2"},
     (Rule.LOCK_FILE, "a/go.sum", W))  # fmt: skip

# ---- files that run code ---------------------------------------------------------------------

N_, F, H = Rule.INSTALL_SCRIPT, Rule.ATTRIBUTE_FILTER, Rule.ATTRIBUTE_HIDES
tree("a new install script", {b"w/package.json": b'{"scripts": {"preinstall": "curl"}}'},
     (N_, "w/package.json", R))  # fmt: skip
tree("another install script",
     {b"package.json": b'{"scripts": {"test": "jest", "postinstall": "curl"}}'},
     (N_, "package.json", R))  # fmt: skip
tree("a package that is no JSON", {b"w/package.json": b"{"}, (N_, "w/package.json", R))
tree("a filter", {b".gitattributes": b"* text=auto\n*.py filter=evil\n"}, (F, ".gitattributes", R))
tree("a filter in a folder", {b"x/.gitattributes": b"* filter=evil\n"}, (F, "x/.gitattributes", R))
tree("a merge driver", {b".gitattributes": b"*.x merge=evil\n"}, (F, ".gitattributes", R))
tree("a diff that is hidden", {b".gitattributes": b"src/* -diff\n"}, (H, ".gitattributes", W))
tree("a file called generated", {b".gitattributes": b"src/** linguist-generated\n"},
     (H, ".gitattributes", W))  # fmt: skip

# ---- secrets ---------------------------------------------------------------------------------

T, L = Rule.SECRET, Rule.SECRET_LIKE
SECRETS: Mapping[str, str] = {
    "an AWS key": "AKIA" + random_text(16, string.ascii_uppercase + "234567"),
    "a GitHub token": "ghp_" + random_text(36),
    "a fine-grained GitHub token": "github_pat_" + random_text(60),
    "a GitLab token": "glpat-" + random_text(20),
    "an OpenAI key": "sk-" + random_text(20) + "T3Blbk" + "FJ" + random_text(20),
    "an Anthropic key": "sk-ant-" + "api03-" + random_text(80),
    "a Google key": "AIza" + random_text(35),
    "a private key": "-----BEGIN RSA " + "PRIVATE KEY-----",
    "an encrypted private key": "-----BEGIN ENCRYPTED " + "PRIVATE KEY-----",
    "a Slack token": "xoxb-" + "1234567890-" + random_text(24, string.ascii_lowercase),
    "a Stripe key": "sk_" + "live_" + random_text(24),
    "a PyPI token": "pypi-AgEIcHlwaS5v" + "cmc" + random_text(80),
    "an npm token": "//r.invalid/:_auth" + "Token=npm_" + random_text(36),
    "an Azure key": "AccountKey=" + random_text(86) + "==",
    "a Square key": "sq0csp-" + random_text(43),
    "a SendGrid key": "SG." + random_text(22) + "." + random_text(43),
}
for name, value in SECRETS.items():
    tree(name, {b"src/app.py": f"x = 1\nkey = '{value}'\n".encode()}, (T, "src/app.py", R))
UNSURE: Mapping[str, str] = {
    "an Artifactory token": '"AKC' + random_text(20) + '"',
    "a Mailchimp key": random_text(32, "0123456789abcdef") + "-us12",
    "a Telegram token": "123456789:" + random_text(35),
    "a Twilio key": "SK" + random_text(32, "0123456789abcdef"),
    "a Discord token": f"M{random_text(23)}.{random_text(6)}.{random_text(27)}",
    "a password in an address": "https://me:" + random_text(12) + "@host.invalid/",
    "a JSON web token": ".".join(
        base64.urlsafe_b64encode(part).decode().rstrip("=")
        for part in (b'{"alg":"HS256"}', b'{"sub":"1"}', secrets.token_bytes(32))
    ),
}
for name, value in UNSURE.items():
    tree(name, {b"src/app.py": f"x = '{value}'\n".encode()}, (L, "src/app.py", W))
tree("a secret in UTF-16", {b"x.txt": SECRETS["a GitHub token"].encode("utf-16")},
     (T, "x.txt", R), (Rule.BINARY, "x.txt", W))  # fmt: skip
tree("a secret in a very long line",
     {b"x.js": b"a" * 90_000 + SECRETS["a Stripe key"].encode() + b"b" * 50_000},
     (T, "x.js", R))  # fmt: skip
tree("a secret in a binary", {b"x.bin": b"\0\0" + SECRETS["an AWS key"].encode()},
     (T, "x.bin", R), (Rule.BINARY, "x.bin", W))  # fmt: skip
tree("a secret that says it may be here",
     {b"x.py": f"k = '{SECRETS['a GitHub token']}'  # pragma: allowlist secret\n".encode()},
     (T, "x.py", R))  # fmt: skip
tree("an example of a key", {b"x.md": b"AKIA" + b"IOSFODNN7EXAMPLE\n"})
commits("a secret in a message",
        lambda yard: yard.change({b"a.txt": b"2"}, f"Use {SECRETS['a GitHub token']}"),
        (T, "", R))  # fmt: skip


def _secret_there_and_back(yard: Yard) -> None:
    yard.change({b"s.py": SECRETS["a GitHub token"].encode()})
    yard.change({}, drop=[b"s.py"])


commits("a secret that a later commit takes back", _secret_there_and_back, (T, "s.py", R))
for name, data in {
    "the canary": CANARY.encode(),
    "the canary in Base64": base64.b64encode(b"ab" + CANARY.encode() + b"z"),
    "the canary in hexadecimal": CANARY.encode().hex().encode(),
    "the canary turned round": CANARY.encode()[::-1],
}.items():
    tree(name, {b"x.txt": b"so: " + data + b"\n"}, (Rule.CANARY, "x.txt", R))
tree("the canary in UTF-16", {b"x.txt": CANARY.encode("utf-16-le")},
     (Rule.CANARY, "x.txt", R), (Rule.BINARY, "x.txt", W))  # fmt: skip
commits("the canary in a message", lambda yard: yard.change({b"a.txt": b"2"}, f"It is {CANARY}"),
        (Rule.CANARY, "", R))  # fmt: skip

# ---- tests -----------------------------------------------------------------------------------

D, K, E = Rule.TEST_DELETED, Rule.TEST_SKIPPED, Rule.TEST_WEAKENED
APP = "tests/test_app.py"
tree("a test file deleted", {}, (D, "tests/test_other.py", W), drop=(b"tests/test_other.py",))
tree("a test removed from its file",
     {b"tests/test_app.py": b"def test_one():\n    assert f(1) == 1\n"}, (D, APP, W))  # fmt: skip
tree("a test removed where the brief asks for it",
     {b"tests/test_app.py": b"def test_one():\n    assert f(1) == 1\n"},
     tests_may_go=True)  # fmt: skip
for mark in (b"@pytest.mark.skip", b"@pytest.mark.xfail(reason='x')", b"@unittest.skip('x')"):
    skipped = mark + b"\n" + bytes(BASE[b"tests/test_app.py"])  # type: ignore[arg-type]
    tree(f"a test under {mark.decode()}", {b"tests/test_app.py": skipped}, (K, APP, W))
tree("an expectation changed",
     {b"tests/test_app.py": BASE[b"tests/test_app.py"].replace(b"== 4", b"== 5")},  # type: ignore[union-attr]
     (E, APP, W))  # fmt: skip
tree("an assertion emptied",
     {b"tests/test_app.py": b"def test_one():\n    assert f(1) == 1\n\n\n"
      b"def test_two():\n    assert True\n"}, (E, APP, W))  # fmt: skip
tree("tests that the runner is told to leave out",
     {b"conftest.py": b"import pytest\ncollect_ignore = ['tests/test_app.py']\n"},
     (K, "conftest.py", W))  # fmt: skip
tree("another test command",
     {b"package.json": b'{"scripts": {"test": "true", "postinstall": "node a.js"}}'},
     (K, "package.json", W))  # fmt: skip
tree("a JavaScript test skipped", {b"w/a.test.js": b"it.skip('adds', () => { expect(1).toBe(1) })"},
     (K, "w/a.test.js", W))  # fmt: skip
tree("a Go test skipped", {b"a_test.go": b"func TestA(t *testing.T) {\n\tt.Skip()\n}\n"},
     (K, "a_test.go", W))  # fmt: skip
tree("a Rust test ignored", {b"tests/a.rs": b"#[test]\n#[ignore]\nfn adds() {}\n"},
     (K, "tests/a.rs", W))  # fmt: skip


# ---- bundles ---------------------------------------------------------------------------------


@parcel(Rule.BUNDLE)
def nothing_at_all(yard: Yard) -> Path:
    return _write(yard, b"")


@parcel(Rule.BUNDLE)
def a_script(yard: Yard) -> Path:
    return _write(yard, b"#!/bin/sh\n\nid\n")


@parcel(Rule.BUNDLE)
def a_bundle_of_version_3_with_a_filter(yard: Yard) -> Path:
    return _write(yard, b"# v3 git bundle\n@filter=blob:none\n\n")


@parcel(Rule.BUNDLE)
def a_header_without_an_end(yard: Yard) -> Path:
    return _write(yard, b"# v2 git bundle\n" + b"-" * 80_000)


@parcel(Rule.BUNDLE)
def a_truncated_pack(yard: Yard) -> Path:
    yard.change({b"x": b"1"})
    path = yard.bundle()
    path.write_bytes(path.read_bytes()[:-25])
    return path


@parcel(Rule.BUNDLE)
def a_spoiled_pack(yard: Yard) -> Path:
    yard.change({b"x": b"words to be spoiled" * 20})
    path = yard.bundle()
    raw = bytearray(path.read_bytes())
    raw[-40] ^= 0xFF
    path.write_bytes(raw)
    return path


@parcel(Rule.BUNDLE)
def another_ref_beside_ours(yard: Yard) -> Path:
    yard.change({b"x": b"1"})
    yard.guest.git("update-ref", "refs/heads/main", yard.tip)
    return yard.bundle(f"^{yard.base}", OUT, "refs/heads/main")


@parcel(Rule.BUNDLE)
def a_tag_instead_of_a_branch(yard: Yard) -> Path:
    yard.change({b"x": b"1"})
    yard.guest.git("update-ref", "refs/tags/v1", yard.tip)
    return yard.bundle(f"^{yard.base}", "refs/tags/v1")


@parcel(Rule.BUNDLE)
def a_head_that_is_a_tree(yard: Yard) -> Path:
    yard.change({b"x": b"1"})
    path = yard.bundle()
    name = yard.guest.read(f"{yard.tip}^{{tree}}")
    path.write_bytes(path.read_bytes().replace(yard.tip.encode(), name.encode(), 1))
    return path


@parcel(Rule.BUNDLE, max_bundle_bytes=100)
def more_bytes_than_are_taken(yard: Yard) -> Path:
    yard.change({b"x": b"1"})
    return yard.bundle()


@parcel(Rule.MERGE)
def a_merge(yard: Yard) -> Path:
    left = yard.change({b"l": b"1"})
    right = yard.guest.commit({b"r": b"1"}, parents=[yard.base])
    yard.tip = yard.guest.commit({b"m": b"1"}, parents=[left, right])
    return yard.bundle()


@parcel(Rule.ANCESTRY)
def commits_on_an_older_base(yard: Yard) -> Path:
    older = yard.guest.read(f"{yard.base}^")
    yard.tip = yard.guest.commit({b"x": b"1"}, parents=[older])
    return yard.bundle(f"^{older}", OUT)


@parcel(Rule.ANCESTRY)
def a_history_of_its_own(yard: Yard) -> Path:
    return yard.bundle(OUT, tip=yard.guest.commit({b"x": b"1"}))


@parcel(Rule.COMMIT_COUNT, max_commits=2)
def more_commits_than_are_taken(yard: Yard) -> Path:
    for number in range(3):
        yard.change({b"n": b"%d" % number})
    return yard.bundle()


@parcel(Rule.EXTRA_OBJECTS)
def a_blob_that_no_commit_needs(yard: Yard) -> Path:
    yard.change({b"x": b"1"})
    names = yard.guest.git("rev-list", "--objects", "--no-object-names", OUT_RANGE(yard)).split()
    return _repacked(yard, [*names, yard.guest.blob(b"smuggled")])


@parcel(Rule.EXTRA_OBJECTS)
def a_commit_beside_the_line(yard: Yard) -> Path:
    yard.change({b"x": b"1"})
    side = yard.guest.commit({b"s": b"1"}, parents=[yard.base])
    names = yard.guest.git("rev-list", "--objects", "--no-object-names", OUT_RANGE(yard)).split()
    more = yard.guest.git("rev-list", "--objects", "--no-object-names", f"{yard.base}..{side}")
    return _repacked(yard, [*names, *more.split()])


@parcel(Rule.CHANGE_SIZE, max_total_bytes=1_000_000)
def more_content_than_is_taken(yard: Yard) -> Path:
    yard.change({b"a": b"\0" * 600_000, b"b": b"\1" * 600_000})
    return yard.bundle()


@parcel(Rule.CHANGE_SIZE, max_objects=20)
def more_objects_than_are_taken(yard: Yard) -> Path:
    yard.change({b"f%d" % number: b"%d" % number for number in range(30)})
    return yard.bundle()


@parcel(Rule.BUNDLE)
def a_bomb_of_zeros(yard: Yard) -> Path:
    yard.change({b"x": b"1"})
    bomb = packed(3, b"\0" * (64 * 1024 * 1024))
    return _write(yard, header(yard, yard.tip) + pack([bomb]))


@parcel(Rule.BUNDLE, max_memory_bytes=256 * MIB)
def a_bomb_of_deltas(yard: Yard) -> Path:
    """Each delta copies the one before it twice: some hundred bytes are a quarter gigabyte."""
    yard.change({b"x": b"1"})
    length, content = 1 << 16, zero_blob(1 << 16)
    objects = [*_honest(yard), packed(3, b"\0" * length)]
    while length < 1 << 28:
        delta = copying_twice(length)
        objects.append(packed(7, delta, extra=content))
        length, content = 2 * length, zero_blob(2 * length)
    data = header(yard, yard.tip) + pack(objects)
    assert len(data) < 10_000
    return _write(yard, data)


@parcel(Rule.BUNDLE)
def a_chain_of_deltas_without_its_beginning(yard: Yard) -> Path:
    yard.change({b"x": b"1"})
    orphan = packed(7, copying_twice(8), extra=bytes(range(20)))
    return _write(yard, header(yard, yard.tip) + pack([orphan]))


@parcel(Rule.EXTRA_OBJECTS)
def a_long_chain_of_deltas_for_nothing(yard: Yard) -> Path:
    """Five thousand of them, one on another, beside an honest commit."""
    yard.change({b"x": b"1"})
    content, chain = b"start", [packed(3, b"start")]
    for number in range(5_000):
        added = b"%d" % number
        delta = _number(len(content)) + _number(len(content + added))
        delta += b"\xb0" + struct.pack("<H", len(content)) + bytes([len(added)]) + added
        chain.append(packed(7, delta, extra=_blob_id(content)))
        content += added
    return _write(yard, header(yard, yard.tip) + pack([*_honest(yard), *chain]))


@parcel(Rule.CHANGE_SIZE, max_seconds=30)
def a_bomb_of_trees(yard: Yard) -> Path:
    """Ten names for one tree, eight times over: a hundred million files in nine objects."""
    inner = yard.guest.raw_tree([(b"f", Node("100644", b"x"))])
    for _ in range(8):
        inner = yard.guest.raw_tree([(b"%d" % n, Node("040000", sha=inner)) for n in range(10)])
    yard.tip = yard.guest.commit(tree=inner, parents=[yard.base])
    return yard.bundle()


@parcel(Rule.CHANGE_SIZE, max_changes=20)
def more_files_than_are_taken(yard: Yard) -> Path:
    yard.change({b"f%d" % number: b"1" for number in range(30)})
    return yard.bundle()


@parcel(Rule.CHANGE_SIZE, max_scan_bytes=1_000)
def more_text_than_is_looked_through(yard: Yard) -> Path:
    yard.change({b"a.txt": b"words\n" * 1_000})
    return yard.bundle()


def copying_twice(length: int) -> bytes:
    """A delta that makes of so many bytes twice as many (gitformat-pack(5), "Deltified")."""
    copies = []
    for _ in range(2):
        at = 0
        while at < length:
            size = min(length - at, 0xFFFFFF)
            copies.append(b"\xff" + struct.pack("<I", at) + struct.pack("<I", size)[:3])
            at += size
    return _number(length) + _number(2 * length) + b"".join(copies)


def _number(value: int) -> bytes:
    raw = bytearray()
    while value > 0x7F:
        raw.append(0x80 | (value & 0x7F))
        value >>= 7
    return bytes((*raw, value))


def _blob_id(data: bytes) -> bytes:
    return hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).digest()


def zero_blob(length: int) -> bytes:
    """The id of a blob of so many zeros."""
    digest = hashlib.sha1(b"blob %d\0" % length, usedforsecurity=False)
    for _ in range(length >> 16):
        digest.update(bytes(1 << 16))
    return digest.digest()


def _honest(yard: Yard) -> list[bytes]:
    """What the commits of a yard need, packed one by one."""
    names = yard.guest.git("rev-list", "--objects", "--no-object-names", OUT_RANGE(yard)).split()
    return [_as_packed(yard, name) for name in names]


def _as_packed(yard: Yard, name: str) -> bytes:
    kinds = {"commit": 1, "tree": 2, "blob": 3}
    kind = yard.guest.git("cat-file", "-t", name)
    return packed(kinds[kind], yard.guest.raw("cat-file", kind, name))


def OUT_RANGE(yard: Yard) -> str:  # noqa: N802 -- reads as the constant it stands for
    return f"{yard.base}..{yard.tip}"


def _fsck(name: str, entries: Callable[[Yard], list[tuple[bytes, Node]]]) -> None:
    def build(yard: Yard) -> Path:
        yard.tip = yard.guest.commit(tree=yard.guest.raw_tree(entries(yard)), parents=[yard.base])
        return yard.bundle()

    PARCELS.append(Parcel(name, build, Rule.FSCK))


for bad in (b".git", b".GIT", b"git~1", b".git ", b".git.", b".git::$INDEX_ALLOCATION", b"..", b".",
            b"a/b", ".g\u200cit".encode()):  # fmt: skip
    _fsck(
        f"a folder called {bad!r}",
        lambda yard, bad=bad: [  # type: ignore[misc]
            (bad, Node("040000", sha=yard.guest.raw_tree([(b"config", Node("100644", b"x"))])))
        ],
    )
_fsck("a name twice", lambda _: [(b"a", Node("100644", b"1")), (b"a", Node("100644", b"2"))])
_fsck("a link for .gitmodules", lambda _: [(b".gitmodules", link(b"a"))])
_fsck("a mode that git does not know", lambda _: [(b"a", Node("100777", b"1"))])


def _write(yard: Yard, data: bytes) -> Path:
    path = yard.root / "parcel"
    path.write_bytes(data)
    return path


def _repacked(yard: Yard, names: list[str]) -> Path:
    data = yard.guest.raw("pack-objects", "--stdout", "-q", stdin="\n".join(names).encode() + b"\n")
    return _write(yard, header(yard, yard.tip) + data)


def rules_of(case: Tree | Parcel) -> GateRules:
    return GateRules(**case.rules)

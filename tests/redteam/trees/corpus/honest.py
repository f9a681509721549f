"""Trees that any honest change may have: nothing is said of them."""

from __future__ import annotations

from tests.redteam.trees.corpus.cases import BASE, tree
from tests.workers.conftest import link

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

"""Links, submodules and other kinds of entries, and files whose content runs code."""

from __future__ import annotations

from tests.redteam.trees.corpus.cases import R, W, tree
from tests.workers.conftest import Node, link, submodule
from workers.gate import Rule

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

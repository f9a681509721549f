"""Names that hide what they are, or that are two of one on some system."""

from __future__ import annotations

from tests.redteam.trees.corpus.cases import R, W, tree
from workers.gate import Rule

U, C, N = Rule.PATH_UNSAFE, Rule.NAME_COLLISION, Rule.PATH_NAME
tree("a control character", {b"a\x1b[2Jb": b"1"}, (U, "a\\x1b[2Jb", R))
tree("a line feed in a name", {b"a\nb": b"1"}, (U, "a\\nb", R))
tree("a delete character", {b"a\x7f": b"1"}, (U, "a\\x7f", R))
tree("a dot at the end", {b"src/app.py.": b"1"}, (U, "src/app.py.", R), (C, "src/app.py.", R))
tree("a space at the end", {b"new ": b"1"}, (U, "new ", R))
tree("a folder with a space at the end", {b"new /x": b"1"}, (U, "new /x", R))
tree("a backslash", {b"..\\x": b"1"}, (U, "..\\\\x", R))
tree("a character, and what it is shown as", {b"a\x01": b"1", b"a\\x01": b"1"},
     (U, "a\\x01", R), (U, "a\\\\x01", R))  # fmt: skip
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

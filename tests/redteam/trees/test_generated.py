"""Generated trees: nothing outside the policy passes, and what passes comes out byte for byte."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.redteam.trees.corpus.cases import BASE
from tests.redteam.trees.test_corpus import SIGNATURE
from tests.workers.conftest import Files, Node, Repo, link, submodule
from tests.workers.gate.conftest import Yard
from workers.gate import (
    Change,
    GateRefusal,
    GateRules,
    Level,
    Quarantine,
    TreeFacts,
    is_refused,
    judge,
    quarantine,
    read_facts,
)
from workers.git import Git
from workers.recreate import recreate_commits

HOT = [
    b".github", b".GitHub", b"workflows", b"WORKFLOWS", b"actions", b".husky", b".vscode", b".env",
    b"tasks.json", b".aider.conf.yml", b"CODEOWNERS", b"drydock.yml", b".gith\xe2\x80\x8bub",
    b".github.", b"workflows ", b".git", b"git~1", b"..", b"con", b"a", b"b", b"src", b"x.py",
    b"\xff", b"\x07", b"A", "é".encode(), b"e\xcc\x81",
]  # fmt: skip
NAMES = st.one_of(st.sampled_from(HOT), st.binary(min_size=1, max_size=6))
PATHS = st.lists(NAMES, min_size=1, max_size=4).map(b"/".join)
MODES = st.sampled_from([0, 0o100644, 0o100755, 0o120000, 0o160000])
CHANGES = st.builds(
    Change,
    commit=st.just("c"),
    path=PATHS,
    old_mode=MODES,
    new_mode=MODES,
    new_sha=st.just("0" * 40),
    size=st.none() | st.integers(0, 10**8),
)


def forbidden(change: Change) -> bool:
    """The policy once more, told plainly: by what a forgiving file system makes of the path."""
    text = change.path.decode("utf-8", "surrogateescape").lower()
    hidden = dict.fromkeys(map(ord, "\u200c\u200d\u200e\u200f\ufeff"))
    parts = [part.translate(hidden).rstrip(" .") or part for part in text.split("/")]
    watched = parts[:2] in ([".github", "workflows"], [".github", "actions"])
    config = parts == [".github", "drydock.yml"]
    tools = ".husky" in parts or parts[-1] == ".env" or parts[-2:] == [".vscode", "tasks.json"]
    odd = change.new_mode and not change.old_mode and {".git", "..", ".", ""} & set(parts)
    agent = change.new_mode and any(part.startswith(".aider") for part in parts)
    kinds = 0o160000 in {change.old_mode, change.new_mode}
    return bool(watched or config or tools or odd or agent or kinds)


@settings(max_examples=600, deadline=None)
@given(st.lists(CHANGES, max_size=6))
def test_no_path_outside_the_policy_passes(changes: list[Change]) -> None:
    found = judge(TreeFacts(1, tuple(changes)), GateRules())
    assert is_refused(found) or not any(forbidden(change) for change in changes)
    assert all(each.path.isprintable() and each.level is not Level.ALLOW for each in found)


PLAIN = st.text("abcXYZ é.-_", min_size=1, max_size=6).map(str.encode)
SAFE_PATHS = st.lists(PLAIN, min_size=1, max_size=3).map(b"/".join)
CONTENTS = st.one_of(
    st.binary(max_size=200),
    st.sampled_from([b"", b"\r\n", b"x\r\ny\n", "é\n".encode("utf-16"), b"no end"]),
)
NODES = st.one_of(
    CONTENTS,
    CONTENTS.map(lambda data: Node("100755", data)),
    st.sampled_from([link(b"a.txt"), link(b"../x"), link(b"/etc/passwd"), submodule()]),
)


def fits(files: Files) -> bool:
    """A path cannot be a file and a folder at once."""
    paths = set(files) | set(BASE)
    return not any(other.startswith(path + b"/") for path in paths for other in paths)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.dictionaries(SAFE_PATHS, NODES, min_size=1, max_size=5).filter(fits))
def test_an_allowed_change_comes_out_byte_equal(files: Files) -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        yard = Yard(Git(home=root / "home", timeout_s=60), root, BASE)
        yard.change(files)
        taken = quarantine(yard.git, yard.bundle(), yard.base, yard.mirror.path, root / "q.git")
        if not isinstance(taken, Quarantine):
            assert isinstance(taken, GateRefusal)
            assert is_refused(taken.findings)
            return
        refused = is_refused(judge(read_facts(yard.git, taken), GateRules()))
        bad = [node for node in files.values() if isinstance(node, Node) and _leads_out(node)]
        assert refused or not bad
        if not refused:
            assert _tree_of_ours(yard, taken) == yard.guest.read(f"{yard.tip}^{{tree}}")


def _leads_out(node: Node) -> bool:
    return node.mode == "160000" or node.data == b"/etc/passwd"


def _tree_of_ours(yard: Yard, taken: Quarantine) -> str:
    recreate_commits(yard.git, taken, SIGNATURE)
    return Repo(taken.git_dir).read("refs/drydock/ours^{tree}")

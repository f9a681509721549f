"""The verdict as a whole: all of a change is judged, and nothing outside the rules passes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.workers.conftest import link, submodule
from tests.workers.gate.conftest import Yard
from workers.gate import (
    Change,
    GateRules,
    Quarantine,
    Rule,
    TreeFacts,
    TreeLinks,
    is_refused,
    judge,
    read_facts,
)


def test_a_change_of_three_thousand_files_is_judged(yard: Yard) -> None:
    stream = b"commit refs/heads/many\ncommitter A <a@b.c> 1 +0000\ndata 0\n"
    stream += b"from refs/heads/main^0\n"
    for number in range(3_000):
        stream += b"M 100644 inline d%d/f%d\ndata 1\nx\n" % (number % 40, number)
    yard.guest.git("fast-import", "--quiet", stdin=stream)
    yard.tip = yard.guest.read("many")
    assert yard.verdict() == []


def test_all_findings_are_reported(yard: Yard) -> None:
    yard.change({b".github/workflows/a.yml": b"1", b"big": b"x" * 2_000, b"out": link(b"/etc")})
    yard.change({b"mod": submodule(), b".aider.conf.yml": b"1"})
    found = yard.verdict(max_file_bytes=1_000)
    assert {rule for rule, _, _ in found} == {
        Rule.AGENT_FILE,
        Rule.LARGE_FILE,
        Rule.PROTECTED_PATH,
        Rule.SUBMODULE,
        Rule.SYMLINK,
    }


def test_a_finding_names_the_commit_it_came_with(yard: Yard) -> None:
    yard.change({b"a.txt": b"2"})
    bad = yard.change({b".github/workflows/x.yml": b"1"})
    taken = yard.take()
    assert isinstance(taken, Quarantine)
    (finding,) = judge(read_facts(yard.git, taken), GateRules())
    assert finding.commit == bad


@given(
    st.lists(
        st.builds(
            Change,
            commit=st.just("c"),
            path=st.binary(min_size=1, max_size=30),
            old_mode=st.sampled_from([0, 0o100644, 0o120000, 0o160000]),
            new_mode=st.sampled_from([0, 0o100644, 0o100755, 0o120000, 0o160000]),
            new_sha=st.just("0" * 40),
            size=st.none() | st.integers(0, 10**8),
        ),
        max_size=8,
    )
)
def test_no_change_outside_the_rules_passes(changes: list[Change]) -> None:
    rules = GateRules()
    found = judge(TreeFacts(1, tuple(changes)), rules)
    must = [
        change
        for change in changes
        if 0o160000 in {change.old_mode, change.new_mode}
        or (change.size or 0) > rules.max_file_bytes
        or change.path.lower().startswith(b".github/workflows/")
    ]
    assert is_refused(found) or not must
    assert all(each.path.isprintable() for each in found)


def test_a_tree_with_links_is_judged_by_its_own_links() -> None:
    facts = TreeFacts(1, (), links=(TreeLinks("c", {b"l": b"/x"}),))
    assert [each.rule for each in judge(facts, GateRules())] == [Rule.SYMLINK]

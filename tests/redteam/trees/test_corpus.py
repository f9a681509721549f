"""Every tree and bundle of the corpus gets exactly the verdict that it is written down with."""

from __future__ import annotations

import multiprocessing
import resource
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest

from tests.redteam.trees.corpus.cases import (
    BASE,
    PARCELS,
    TREES,
    Parcel,
    Tree,
    Verdict,
    rules_of,
)
from tests.redteam.trees.corpus.leaks import CANARY, SECRETS, UNSURE
from tests.workers.conftest import Repo, git
from tests.workers.gate.conftest import Yard
from workers.gate import Finding, GateRefusal, GateRules, Quarantine, judge, quarantine, read_facts
from workers.git import Git
from workers.guest_repo import Identity
from workers.recreate import Signature, recreate_commits

__all__ = ["git"]

SIGNATURE = Signature(author=Identity("Drydock", "drydock@example.com"), at=1_750_000_000)


@pytest.fixture
def yard(git: Git, tmp_path: Path) -> Yard:
    return Yard(git, tmp_path, BASE)


def judged(yard: Yard, bundle: Path, rules: GateRules) -> tuple[Finding, ...]:
    into = yard.root / "quarantine.git"
    taken = quarantine(yard.git, bundle, yard.base, yard.mirror.path, into, rules)
    if isinstance(taken, GateRefusal):
        return taken.findings
    return judge(read_facts(yard.git, taken, rules, (CANARY,)), rules)


def verdicts(findings: tuple[Finding, ...]) -> frozenset[Verdict]:
    return frozenset((each.rule, each.path, each.level) for each in findings)


@pytest.mark.parametrize("case", TREES, ids=lambda case: case.name)
def test_a_tree_gets_exactly_its_verdict(yard: Yard, case: Tree) -> None:
    case.build(yard)
    found = judged(yard, yard.bundle(), rules_of(case))
    assert verdicts(found) == case.expected
    assert all(each.reason and each.reason.isprintable() for each in found)
    values = (*SECRETS.values(), *UNSURE.values(), CANARY)
    assert not any(value in each.reason for each in found for value in values)


@pytest.mark.parametrize("case", PARCELS, ids=lambda case: case.name)
def test_a_bundle_is_refused_by_exactly_its_rule(yard: Yard, case: Parcel) -> None:
    found = judged(yard, case.build(yard), rules_of(case))
    assert {each.rule for each in found} == {case.rule}


def most_memory(git: Git, taken: Quarantine) -> int:
    """Return the most KiB that any git held while a change was read."""
    read_facts(git, taken)
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss


def test_a_hundred_million_files_in_nine_objects_take_little_memory_of_the_host(yard: Yard) -> None:
    (bomb,) = (case for case in PARCELS if case.name == "a_bomb_of_trees")
    taken = yard.take(bomb.build(yard))
    assert not isinstance(taken, GateRefusal)
    with ProcessPoolExecutor(1, multiprocessing.get_context("forkserver")) as pool:
        assert pool.submit(most_memory, yard.git, taken).result() < 400 * 1024


@pytest.mark.parametrize("case", [c for c in TREES if not c.expected], ids=lambda case: case.name)
def test_an_allowed_tree_comes_out_byte_equal(yard: Yard, case: Tree) -> None:
    case.build(yard)
    into = yard.root / "quarantine.git"
    taken = quarantine(yard.git, yard.bundle(), yard.base, yard.mirror.path, into)
    assert not isinstance(taken, GateRefusal)
    made = recreate_commits(yard.git, taken, SIGNATURE)
    ours = Repo(taken.git_dir)
    assert ours.read(f"{made[-1].sha}^{{tree}}") == yard.guest.read(f"{yard.tip}^{{tree}}")


def test_the_corpus_is_large_and_names_each_case_once() -> None:
    names = [case.name for case in (*TREES, *PARCELS)]
    assert len(names) == len(set(names))
    assert len(names) >= 80

"""The gate: what a machine gave back is judged here, on the applied tree, before anything leaves.

`quarantine` unpacks the bundle into a bare repository that this host made; `read_facts` asks git
what every commit did; `judge` is pure and returns every finding, not the first. What passed is
re-created by `workers.recreate` and leaves by `workers.push`.

Patch text is never judged and git's parsing never runs where the machine wrote.
"""

from workers.gate.facts import read_facts
from workers.gate.judge import is_allowable, is_refused, judge
from workers.gate.kinds import leaves_tree
from workers.gate.paths import canonical, matches
from workers.gate.quarantine import (
    BASE_REF,
    IN_REF,
    check_ancestry,
    check_bundle,
    parse_bundle_header,
    parse_pack_count,
    quarantine,
)
from workers.gate.values import (
    GITLINK,
    MIB,
    STRUCTURAL,
    SYMLINK,
    TEST_RULES,
    Allowance,
    BundleHeader,
    Change,
    Content,
    Finding,
    GateRefusal,
    GateRules,
    Level,
    PathRule,
    Quarantine,
    Rule,
    Sighting,
    TestCounts,
    TestFile,
    TreeFacts,
    TreeLinks,
)
from workers.gate.weakening import asks_for_fewer_tests

__all__ = [
    "BASE_REF",
    "GITLINK",
    "IN_REF",
    "MIB",
    "STRUCTURAL",
    "SYMLINK",
    "TEST_RULES",
    "Allowance",
    "BundleHeader",
    "Change",
    "Content",
    "Finding",
    "GateRefusal",
    "GateRules",
    "Level",
    "PathRule",
    "Quarantine",
    "Rule",
    "Sighting",
    "TestCounts",
    "TestFile",
    "TreeFacts",
    "TreeLinks",
    "asks_for_fewer_tests",
    "canonical",
    "check_ancestry",
    "check_bundle",
    "is_allowable",
    "is_refused",
    "judge",
    "leaves_tree",
    "matches",
    "parse_bundle_header",
    "parse_pack_count",
    "quarantine",
    "read_facts",
]

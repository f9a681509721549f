"""Tests that went away, are skipped now, or ask for less: the cheapest way to a green suite. Pure.

Nothing is parsed: a line counts for a test, an assertion or a skip by how it is written in the
common languages. What moved to another test file of the same change is not gone.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence

from workers.gate.values import Rule, TestCounts, TestFile, TreeFacts
from workers.git import printable

_CODE = (
    r"\.(?:py|pyi|js|jsx|ts|tsx|mjs|cjs|mts|cts|go|rs|java|kt|kts|scala|groovy|rb|php|cs|fs|vb|c|cc"
    r"|cpp|cxx|h|hpp|m|mm|swift|ex|exs|erl|clj|cljs|hs|ml|lua|pl|t|sh|bats|r|jl|dart|vue|svelte"
    r"|snap|feature|robot)$"
)
_TEST_FOLDER = re.compile(r"(?:^|/)(?:tests?|__tests__|specs?|testing|e2e)/", re.IGNORECASE)
_TEST_NAME = re.compile(
    r"(?:^|/)(?:test_[^/]*|[^/]*[_.-](?:test|tests|spec|specs)|conftest"
    r"|[^/]*(?:Test|Tests|Spec|IT|TestCase))\.[A-Za-z]+$"
)
_CODE_NAME = re.compile(_CODE, re.IGNORECASE)
_CONFIG_NAME = re.compile(
    r"(?:^|/)(?:conftest\.py|pytest\.ini|\.pytest\.ini|setup\.cfg|tox\.ini|pyproject\.toml"
    r"|\.coveragerc|(?:jest|vitest|karma|playwright|cypress)\.config\.[a-z]+|\.mocharc[^/]*"
    r"|package\.json|phpunit\.xml(?:\.dist)?|\.rspec|nose2?\.cfg|Cargo\.toml)$"
)

_TESTS = (
    re.compile(r"^[ \t]*(?:async[ \t]+)?def[ \t]+(test\w*)", re.MULTILINE),
    re.compile(r"\b(?:it|test|specify|scenario)(?:\.\w+)*[ \t]*\([ \t]*([\"'`][^\"'`\n]{1,200})"),
    re.compile(r"^[ \t]*(?:it|specify|scenario|test)[ \t]+([\"'][^\"'\n]{1,200})", re.MULTILINE),
    re.compile(r"^func[ \t]+((?:Test|Fuzz|Example|Benchmark)\w*)\(", re.MULTILINE),
    re.compile(r"#\[(?:\w+::)?test\b[^\]\n]*\][ \t]*\n[^\n]{0,200}?\bfn[ \t]+(\w+)"),
    re.compile(
        r"@(?:Parameterized|Repeated)?Test\b[^\n]*\n"
        # Bounded: from each of many, all that follow would be looked through.
        r"(?:[ \t]*@[^\n]{0,500}\n){0,20}[^\n(]{0,300}?(\w+)[ \t]*\("
    ),
    re.compile(r"\[(?:Fact|Theory|Test|TestMethod|TestCase)\b[^\n]*\n[^\n(]*?(\w+)[ \t]*\("),
    re.compile(r"\bfunction[ \t]+(test\w+)[ \t]*\(", re.IGNORECASE),
    re.compile(r"^[ \t]*(?:TEST|TEST_F|TEST_P|TEST_CASE)\(([^)\n]{1,200})\)", re.MULTILINE),
)
_ASSERTION = re.compile(
    r"\bassert\w*\b|\bexpect\w*[ \t]*[(!{]|\.should\b|\brequire\.[A-Z]\w+\("
    r"|\bt\.(?:Error|Fatal|Fail)"
    r"|\bEXPECT_\w+\(|\bASSERT_\w+\(|\bpytest\.(?:raises|warns|fail)\b|\bself\.(?:assert|fail)\w*\("
    r"|\b(?:assert|debug_assert)\w*!|\bXCTAssert|\bverify\(|\bmust_\w+|\bthrow_?error\b",
    re.IGNORECASE,
)
_SKIP = re.compile(
    r"\bpytest\.mark\.(?:skip|skipif|xfail)\b|\bpytest\.(?:skip|xfail|importorskip)\(|"
    r"\bunittest\.(?:skip\w*|expectedFailure)\b|\bself\.skipTest\(|^[ \t]*@skip\w*\b|"
    r"\b(?:it|test|describe|context|suite)\.(?:skip|todo|only|failing|fixme)\b|"
    r"\b(?:xit|xdescribe|xtest|xcontext|fit|fdescribe)[ \t]*\(|\bt\.Skip(?:f|Now)?\(|"
    r"#\[ignore\b|#\[cfg\((?:never|FALSE)|@(?:Disabled|Ignore)\b|\[Ignore\b|\bSkip[ \t]*=[ \t]*\"|"
    r"\bmarkTest(?:Skipped|Incomplete)\(|\bGTEST_SKIP\b|\bDISABLED_\w+|\bXCTSkip|"
    r"__test__[ \t]*=[ \t]*False|\bSkipTest\b"
)
_HOLLOW = re.compile(
    r"^[ \t]*assert[ \t]+(?:True|1|not[ \t]+False|1[ \t]*==[ \t]*1)[ \t]*(?:#.*|,.*)?$|"
    r"\bassertTrue\([ \t]*True[ \t]*[,)]|\bassertEqual\([ \t]*(\w+)[ \t]*,[ \t]*\1[ \t]*\)|"
    r"\bexpect\([ \t]*true[ \t]*\)\.(?:toBe\([ \t]*true|toBeTruthy\(|to\.be\.true|to\.equal\()|"
    r"\bassert(?:_eq)?!\([ \t]*(?:true|1[ \t]*,[ \t]*1)[ \t]*\)|\bassertTrue\([ \t]*true[ \t]*\)"
)
_CONFIG_SKIP = re.compile(
    r"\bcollect_ignore\b|\bcollect_ignore_glob\b|--ignore(?:-glob)?\b|--deselect\b|"
    r"\btestPathIgnorePatterns\b|\bpytest_(?:collection_modifyitems|ignore_collect|runtest_setup)\b|"
    r"\bnorecursedirs\b|--passWithNoTests\b|\bfail_under\b|[\"' ]-k[ =]?[\"']?not\b|"
    r"\bcoverageThreshold\b|--no-fail\b|\bxfail_strict[ \t]*=[ \t]*false\b|"
    r"\bpython_(?:files|functions|classes)[ \t]*=|\bautotests[ \t]*=[ \t]*false\b"
)
_ASKS = re.compile(
    r"\b(?:remov|delet|drop|skip|disabl|xfail|get rid of|ignor)\w*\b[^.\n]{0,60}"
    r"\b(?:tests?|specs?)\b"
    r"|\b(?:tests?|specs?)\b[^.\n]{0,40}\b(?:remov|delet|dropp|skipp|disabl|obsolete|outdated)\w*",
    re.IGNORECASE,
)
_SHOWN = 3
_LONGEST_LINE = 1_000


def is_test_file(path: bytes) -> bool:
    """Return whether a file by its name holds tests (or their conftest)."""
    text = path.decode("utf-8", "replace")
    if not _CODE_NAME.search(text):
        return False
    return bool(_TEST_NAME.search(text) or _TEST_FOLDER.search(text))


def is_test_config(path: bytes) -> bool:
    """Return whether a file by its name tells a test runner what to run."""
    return bool(_CONFIG_NAME.search(path.decode("utf-8", "replace")))


def asks_for_fewer_tests(*texts: str) -> bool:
    """Return whether what was asked for is itself to remove or skip tests."""
    return any(_ASKS.search(text) for text in texts)


def count_tests(path: bytes, text: str) -> TestCounts:
    """Return what one version of a test file, or of a runner's configuration, holds."""
    lines = [line[:_LONGEST_LINE] for line in text.split("\n")]
    skips = _CONFIG_SKIP if is_test_config(path) else None
    if not is_test_file(path):
        found = [line.strip() for line in lines if skips and skips.search(line)]
        return TestCounts(skips=(*_test_script(path, text), *found))
    text = "\n".join(lines)
    return TestCounts(
        tests=frozenset(name for pattern in _TESTS for name in pattern.findall(text)),
        assertions=tuple(line.strip() for line in lines if _ASSERTION.search(line)),
        skips=tuple(
            line.strip()
            for line in lines
            if _SKIP.search(line) or (skips is not None and skips.search(line))
        ),
        hollow=tuple(line.strip() for line in lines if _HOLLOW.search(line)),
    )


def _test_script(path: bytes, text: str) -> tuple[str, ...]:
    """Return package.json's test command: another one may run less."""
    if not path.endswith(b"package.json"):
        return ()
    try:
        script = json.loads(text)["scripts"]["test"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return ()
    return (f"test: {script}",)


Weak = tuple[bytes, Rule, str]


def check_tests(facts: TreeFacts) -> Iterator[Weak]:
    """Yield path, rule and reason for all that makes the whole change's tests ask for less."""
    added = _added_elsewhere(facts.tests)
    moved = Counter(added.assertions)
    for file in facts.tests:
        before, after = file.before or TestCounts(), file.after or TestCounts()
        gone = sorted(before.tests - after.tests - added.tests)
        lost = Counter(before.assertions) - Counter(after.assertions)
        missing = sum(max(0, count - moved[each]) for each, count in lost.items())
        yield from _gone(file, gone, missing)
        yield from _new_lines(file, before.skips, after.skips, Rule.TEST_SKIPPED, _SKIPS)
        yield from _new_lines(file, before.hollow, after.hollow, Rule.TEST_WEAKENED, _EMPTIES)


_SKIPS = "skips tests, or tells the runner to"
_EMPTIES = "asserts what is always true"


def _added_elsewhere(files: Sequence[TestFile]) -> TestCounts:
    tests: set[str] = set()
    assertions: list[str] = []
    for file in files:
        before, after = file.before or TestCounts(), file.after or TestCounts()
        tests |= after.tests - before.tests
        assertions += (Counter(after.assertions) - Counter(before.assertions)).elements()
    return TestCounts(frozenset(tests), tuple(assertions))


def _gone(file: TestFile, gone: Sequence[str], lost: int) -> Iterator[Weak]:
    if file.after is None and file.before is not None:
        if gone or lost or not file.before.tests:
            yield file.path, Rule.TEST_DELETED, _deleted_words(gone)
    elif gone:
        yield (
            file.path,
            Rule.TEST_DELETED,
            f"{_counted(len(gone), 'test is', 'tests are')} gone: {_names(gone)}",
        )
    elif lost:
        words = _counted(lost, "assertion that was here is", "assertions that were here are")
        yield file.path, Rule.TEST_WEAKENED, f"{words} gone or asks for something else"


def _deleted_words(gone: Sequence[str]) -> str:
    if not gone:
        return "a test file was deleted"
    return f"a test file was deleted, with {_counted(len(gone), 'test', 'tests')}: {_names(gone)}"


def _new_lines(
    file: TestFile, before: Sequence[str], after: Sequence[str], rule: Rule, words: str
) -> Iterator[Weak]:
    new = list((Counter(after) - Counter(before)).elements())
    if new:
        shown = "; ".join(printable(line, 80) for line in new[:_SHOWN])
        yield file.path, rule, f"{words}: {shown}"


def _names(names: Sequence[str]) -> str:
    shown = ", ".join(printable(name.strip("\"'`"), 60) for name in names[:_SHOWN])
    return shown if len(names) <= _SHOWN else f"{shown} and {len(names) - _SHOWN} more"


def _counted(count: int, one: str, many: str) -> str:
    return f"{count} {one if count == 1 else many}"

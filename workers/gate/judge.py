"""The verdict: every finding about what git told, not the first only. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from workers.gate.kinds import check_kind, check_links, check_locks
from workers.gate.names import MAX_PATH_BYTES, collisions, is_agents, odd_name, unsafe_name
from workers.gate.paths import judge_path, matches
from workers.gate.values import (
    STRUCTURAL,
    TEST_RULES,
    Allowance,
    Change,
    Content,
    Finding,
    GateRules,
    Level,
    Rule,
    Sighting,
    TreeFacts,
)
from workers.gate.weakening import check_tests
from workers.git import printable

# Of a path that is refused for its length alone.
_LONG = 400
_ORDER = {Level.REFUSE: 0, Level.WARN: 1}


def judge(facts: TreeFacts, rules: GateRules) -> tuple[Finding, ...]:
    """Return every finding, one per rule and path, with the first commit it is in.

    What refuses comes first, then what a reviewer has to see first: the tests.
    """
    first: dict[tuple[Rule, str], Finding] = {}
    for finding in _all_findings(facts, rules):
        known = first.setdefault((finding.rule, finding.path), finding)
        if finding.level is Level.REFUSE and known.level is not Level.REFUSE:
            first[finding.rule, finding.path] = finding
    told = _without_secret_names(facts, first.values())
    shown = frozenset(each.path for each in told)
    found = [_allowed(each, rules, shown) for each in told if each.level is not Level.ALLOW]
    return tuple(sorted(found, key=_place))


def _without_secret_names(facts: TreeFacts, findings: Iterable[Finding]) -> list[Finding]:
    """Return the findings; a name that holds a secret is shown by none, nor by a reason."""
    names = [each.name for each in facts.contents if each.name and _holds_secret(each)]
    hidden = {shown_path(name): _digest(name) for name in names}
    told = {printable(name): _digest(name) for name in names}
    return [
        replace(
            each,
            path=hidden.get(each.path, each.path),
            reason=_without(each.reason, told) if told else each.reason,
        )
        for each in findings
    ]


def _without(text: str, told: Mapping[str, str]) -> str:
    for name, instead in told.items():
        text = text.replace(name, instead)
    return text


def _holds_secret(content: Content) -> bool:
    return content.canary or any(each.sure for each in content.secrets)


def _digest(path: bytes) -> str:
    return f"(a name that is not shown, SHA-256 {hashlib.sha256(path).hexdigest()[:16]})"


def is_refused(findings: Iterable[Finding]) -> bool:
    """Return True when any finding refuses the run."""
    return any(finding.level is Level.REFUSE for finding in findings)


def is_allowable(finding: Finding) -> bool:
    """Return whether a person may let this finding through for one run."""
    return finding.rule not in STRUCTURAL and bool(finding.path)


def _place(finding: Finding) -> tuple[int, bool, str, str]:
    return (
        _ORDER[finding.level],
        finding.rule not in TEST_RULES,
        finding.rule.value,
        finding.path,
    )


def _all_findings(facts: TreeFacts, rules: GateRules) -> Iterator[Finding]:
    if facts.overflow:
        yield Finding(Rule.CHANGE_SIZE, "", facts.overflow)
    # A name is the same in every commit; what may be done to it differs by whether it is there.
    for change in {(c.path, c.new_mode != 0): c for c in reversed(facts.changes)}.values():
        yield from _path_findings(change, rules)
    for commit, path, reason in check_links(facts):
        yield _finding(rules, Rule.SYMLINK, path, reason, commit)
    for content in facts.contents:
        yield from _content_findings(content, rules)
    for path, rule, reason in check_tests(facts):
        yield _finding(rules, rule, path, reason, "")
    yield from _change_findings(facts, rules)


def _change_findings(facts: TreeFacts, rules: GateRules) -> Iterator[Finding]:
    for seen in (each for change in facts.changes for each in check_kind(change, rules)):
        yield _of(rules, *seen)
    for seen in check_locks(facts.changes):
        yield _of(rules, *seen)
    for change, other in collisions(facts):
        reason = f"the same name as {other} where case or Unicode forms do not count"
        yield _of(rules, change, Rule.NAME_COLLISION, reason)


def _path_findings(change: Change, rules: GateRules) -> Iterator[Finding]:
    exists = change.new_mode != 0
    level, pattern = judge_path(change.path, exists, rules)
    if level is not Level.ALLOW:
        how = "is not changed by a run" if level is Level.REFUSE else "is changed with care"
        reason = f"{pattern} {how}"
        yield Finding(Rule.PROTECTED_PATH, shown_path(change.path), reason, level, change.commit)
    if exists and is_agents(change.path):
        reason = "files that configure the agent are not taken from it"
        yield _of(rules, change, Rule.AGENT_FILE, reason)
    if change.new_mode and not change.old_mode:
        yield from _name_findings(change, rules)


def _name_findings(change: Change, rules: GateRules) -> Iterator[Finding]:
    unsafe, odd = unsafe_name(change.path), odd_name(change.path)
    if unsafe is not None:
        yield _of(rules, change, Rule.PATH_UNSAFE, unsafe)
    elif odd is not None:
        yield _of(rules, change, Rule.PATH_NAME, odd)


def _content_findings(content: Content, rules: GateRules) -> Iterator[Finding]:
    path, where = (content.name, "its name ") if content.name else (content.path, "")
    if content.canary:
        reason = f"{where}holds a value that only this run's machine was given"
        yield _finding(rules, Rule.CANARY, path, reason, content.commit)
    for rule, sightings in (
        (Rule.SECRET, [each for each in content.secrets if each.sure]),
        (Rule.SECRET_LIKE, [each for each in content.secrets if not each.sure]),
    ):
        if sightings:
            reason = where + _secret_words(sightings)
            yield _finding(rules, rule, path, reason, content.commit)
    yield from _lines_found(content, rules)


def _lines_found(content: Content, rules: GateRules) -> Iterator[Finding]:
    if content.binary:
        yield _finding(rules, Rule.BINARY, content.path, "binary content", content.commit)
    for rule, lines, words in (
        (Rule.INSTALL_SCRIPT, content.scripts, "an installation would now run"),
        (Rule.ATTRIBUTE_FILTER, content.filters, "git would start a program for"),
        (Rule.ATTRIBUTE_HIDES, content.hidings, "changes are shown no more by"),
    ):
        if lines:
            shown = "; ".join(printable(line, 80) for line in lines[:5])
            yield _finding(rules, rule, content.path, f"{words}: {shown}", content.commit)


def _secret_words(sightings: list[Sighting]) -> str:
    shown = [f"{each.kind} in line {each.line} ({each.length} characters)" for each in sightings]
    more = f" and {len(shown) - 3} more" if len(shown) > 3 else ""
    return f"looks like a secret: {', '.join(shown[:3])}{more}"


def _of(rules: GateRules, change: Change, rule: Rule, reason: str) -> Finding:
    return _finding(rules, rule, change.path, reason, change.commit)


def _finding(rules: GateRules, rule: Rule, path: bytes, reason: str, commit: str) -> Finding:
    return Finding(rule, shown_path(path), reason, rules.level_of(rule), commit)


def shown_path(path: bytes) -> str:
    """Return a path as people see it, and no two alike: findings and allowances go by it.

    One that is too long to be taken at all is cut, and told apart by its digest.
    """
    told = printable(path.replace(b"\\", rb"\\"), cap=4 * MAX_PATH_BYTES)
    if len(path) <= MAX_PATH_BYTES:
        return told
    return f"{told[:_LONG]}… (SHA-256 {hashlib.sha256(path).hexdigest()[:16]})"


def _allowed(finding: Finding, rules: GateRules, shown: frozenset[str]) -> Finding:
    """Return a refusal that a person let through as a warning that names them."""
    if finding.level is not Level.REFUSE or not is_allowable(finding):
        return finding
    by = next((a.by for a in rules.allowances if _is_meant(a, finding.path, shown)), None)
    if by is None:
        return finding
    return replace(finding, level=Level.WARN, reason=f"{finding.reason}; allowed by {by}")


def _is_meant(allowance: Allowance, shown: str, all_shown: frozenset[str]) -> bool:
    """An allowance is for one path as it was shown, or for a glob that somebody wrote.

    A file may be named like a glob, by the machine: what was shown stands for that file alone.
    """
    if allowance.path in all_shown:
        return allowance.path == shown
    return matches(shown.encode(), allowance.path)

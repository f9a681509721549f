"""Which paths a run may change: globs, and what stands behind a name that only looks different.

A file system that ignores case, Unicode forms, invisible characters or what stands at a name's end
opens `.GitHub/workflows/x` as `.github/workflows/x`. So every path is also judged by its
canonical form, and a rule about `.github` is one about its short name on Windows too. Pure.

Sources: git's `utf8.c` (`next_hfs_char`, the code points that HFS+ ignores) and `path.c`
(`is_ntfs_dotgit`).
"""

from __future__ import annotations

import functools
import re
import unicodedata
from collections.abc import Sequence

from workers.gate.globs import WILD, fits, is_heavy
from workers.gate.short_names import short_names_of
from workers.gate.values import GateRules, Level, PathRule, strongest

_SWAPS = {"**/": "(?:.*/)?", "/**": "(?:/.*)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
_HFS_IGNORED = re.compile("[\u200c-\u200f\u202a-\u202e\u206a-\u206f\ufeff]")


def _rules(level: Level, *patterns: str) -> tuple[PathRule, ...]:
    return tuple(PathRule(pattern, level) for pattern in patterns)


# The first that fits counts. They hold where neither the operator nor the repository says anything.
DEFAULT_PATHS: tuple[PathRule, ...] = (
    # Examples of an environment are documentation; the environment itself is configuration.
    *_rules(Level.WARN, "**/.env.example", "**/.env.sample", "**/.env.template", "**/.env.dist"),
    *_rules(Level.REFUSE, "**/.env", "**/.env.*", "**/.env-*", "**/.envrc", "**/.envrc.*"),
    # Who has to review.
    *_rules(Level.REFUSE, "CODEOWNERS", ".github/CODEOWNERS", "docs/CODEOWNERS"),
    # Programs that git or a review bot starts.
    *_rules(Level.REFUSE, "**/.husky/**", "**/.githooks/**", "**/.git-hooks/**", "**/.hooks/**"),
    *_rules(Level.REFUSE, "**/.pre-commit-config.yml", "**/.pre-commit-config.yaml"),
    *_rules(Level.REFUSE, "**/.pre-commit-hooks.yaml", "**/lefthook.yml", "**/.lefthook.yml"),
    *_rules(
        Level.REFUSE, "**/lefthook.yaml", "**/.lefthook.yaml", "**/.overcommit.yml", "**/.gitconfig"
    ),
    # Programs that an editor or a shell starts when the folder is opened.
    *_rules(Level.REFUSE, "**/.vscode/tasks.json", "**/.vscode/launch.json"),
    *_rules(Level.REFUSE, "**/*.code-workspace", "**/.idea/runConfigurations/**"),
    *_rules(Level.REFUSE, "**/.devcontainer/**", "**/.devcontainer.json", "**/.gitpod.yml"),
    *_rules(Level.REFUSE, "**/.vimrc", "**/.exrc", "**/.nvim.lua", "**/.dir-locals.el"),
    *_rules(Level.REFUSE, "**/.mise.toml", "**/.autoenv", "**/.autoenv.zsh"),
    *_rules(Level.WARN, "**/.vscode/**", "**/.idea/**"),
    # Package managers that run what their configuration names.
    *_rules(Level.REFUSE, "**/.npmrc", "**/.yarnrc", "**/.yarnrc.yml", "**/.yarn/releases/**"),
    *_rules(Level.REFUSE, "**/.yarn/plugins/**", "**/.pnpmfile.cjs", "**/.pypirc"),
    *_rules(Level.REFUSE, "**/.cargo/config", "**/.cargo/config.toml", "**/sitecustomize.py"),
    # npm builds what it finds there, and a build runs commands without a script to see.
    *_rules(Level.REFUSE, "**/binding.gyp"),
    *_rules(Level.WARN, "**/*.gypi"),
    # What other coding agents run or believe.
    *_rules(Level.REFUSE, "**/.mcp.json", "**/.cursor/mcp.json", "**/.claude/**"),
    *_rules(Level.WARN, "**/.cursor/**", "**/.cursorrules", "**/AGENTS.md", "**/CLAUDE.md"),
    *_rules(Level.WARN, ".github/copilot-instructions.md", ".github/instructions/**"),
    # Other systems that run what the repository says.
    *_rules(Level.WARN, ".circleci/**", ".gitlab-ci.yml", ".travis.yml", "azure-pipelines.yml"),
    *_rules(Level.WARN, ".buildkite/**", ".drone.yml", "Jenkinsfile", ".github/dependabot.yml"),
)


@functools.lru_cache(maxsize=32_768)
def canonical(path: bytes) -> str:
    """Return what a forgiving file system takes this path for: one form for all that it equates."""
    text = path.decode("utf-8", "surrogateescape")
    if text.isascii():
        folded = text.lower()
    else:
        folded = unicodedata.normalize("NFC", unicodedata.normalize("NFD", text).casefold())
        folded = _HFS_IGNORED.sub("", folded)
    return "/".join(_canonical_part(part) for part in folded.split("/"))


def _canonical_part(part: str) -> str:
    # NTFS: `name::$DATA` is the file `name`, and dots and spaces at the end do not count.
    bare = part.partition(":")[0].rstrip(". ")
    return bare or part


def matches(path: bytes, pattern: str) -> bool:
    """Match a whole path, ignoring case; `**` crosses folders, `*` and `?` do not.

    `x/**` is `x` itself too: a file or link may take a folder's place. Case is ignored because the
    file systems of readers do.
    """
    text = path.decode("utf-8", "surrogateescape")
    if is_heavy(pattern):
        return fits(pattern, text)
    return compiled(pattern).fullmatch(text) is not None


@functools.lru_cache(maxsize=2_048)
def compiled(pattern: str) -> re.Pattern[str]:
    """Return the pattern as a regular expression for whole paths."""
    parts = WILD.split(pattern)
    whole = "".join(_SWAPS.get(part, re.escape(part)) for part in parts)
    return re.compile(whole, re.IGNORECASE | re.DOTALL)


@functools.lru_cache(maxsize=4_096)
def _reach(rule: PathRule, exists: bool, short: bool) -> re.Pattern[str]:
    """Return what a rule is about: its paths and, of what `exists`, the folders they lie in.

    With `short` their short names count too, except where the rule lets something through: that
    holds for its own words only.
    """
    meant = _meant(rule, exists)
    ways = [compiled(pattern).pattern for pattern in meant]
    if short and rule.level is not Level.ALLOW:
        ways += [_with_short_names(pattern) for pattern in meant]
    return re.compile("|".join(f"(?:{way})" for way in ways), re.IGNORECASE | re.DOTALL)


def _meant(rule: PathRule, exists: bool) -> tuple[str, ...]:
    """Return a rule's own pattern and, of what `exists`, those of the folders that it names."""
    parts = rule.pattern.split("/")
    named = (end for end in range(1, len(parts)) if not WILD.search(parts[end - 1]))
    return (rule.pattern, *("/".join(parts[:end]) for end in named if exists))


def _reaches(rule: PathRule, exists: bool, form: str) -> bool:
    """Say whether a rule with many wildcards is about a path.

    Where a name may be a short one, any name is taken for that of a folder in the pattern.
    """
    meant = _meant(rule, exists)
    if "~" in form and rule.level is not Level.ALLOW:
        meant = (*meant, *map(_with_any_names, meant))
    return any(fits(pattern, form) for pattern in meant)


def _with_any_names(pattern: str) -> str:
    return "/".join("*" if short_names_of(part) else part for part in pattern.split("/"))


def _with_short_names(pattern: str) -> str:
    """Return the expression of a pattern in which each name may also be one of its short names."""
    parts = pattern.split("/")
    # No path and no pattern holds a NUL: the names' places are kept with it, and filled at the end.
    places = [f"\0{at}\0" if short_names_of(part) else part for at, part in enumerate(parts)]
    whole = compiled("/".join(places)).pattern
    for place, part in zip(places, parts, strict=True):
        if place != part:
            either = f"(?:{compiled(part).pattern}|{short_names_of(part)})"
            whole = whole.replace(place, either)
    return whole


@functools.lru_cache(maxsize=64)
def _any_of(rules: tuple[PathRule, ...], exists: bool, short: bool) -> re.Pattern[str]:
    joined = "|".join(
        f"(?:{_reach(rule, exists, short).pattern})" for rule in rules if not is_heavy(rule.pattern)
    )
    return re.compile(joined or r"(?!)", re.IGNORECASE | re.DOTALL)


def judge_path(path: bytes, exists: bool, rules: GateRules) -> tuple[Level, str]:
    """Return what a change at `path` is worth, and the pattern that says so ("" for none).

    `exists` is False for a removal; something that exists may also take the place of a folder that
    a pattern lies in.
    """
    forms = tuple(dict.fromkeys((path.decode("utf-8", "surrogateescape"), canonical(path))))
    floor = _strongest_of(forms, exists, rules.floor)
    choice = _first_of(forms, exists, rules.paths) or _first_of(forms, exists, DEFAULT_PATHS)
    if floor is None or (
        choice is not None and strongest(choice.level, floor.level) != floor.level
    ):
        return (choice.level, choice.pattern) if choice is not None else (Level.ALLOW, "")
    return floor.level, floor.pattern


def _first_of(forms: Sequence[str], exists: bool, rules: tuple[PathRule, ...]) -> PathRule | None:
    # One search instead of fifty, for the many paths that no rule is about.
    if not any(is_heavy(rule.pattern) for rule in rules) and not any(
        _any_of(rules, exists, "~" in form).fullmatch(form) for form in forms
    ):
        return None
    return next((rule for rule in rules if _concerns(forms, exists, rule)), None)


def _strongest_of(
    forms: Sequence[str], exists: bool, rules: tuple[PathRule, ...]
) -> PathRule | None:
    found = [rule for rule in rules if _concerns(forms, exists, rule)]
    if not found:
        return None
    level = strongest(*(rule.level for rule in found))
    return next(rule for rule in found if rule.level is level)


def _concerns(forms: Sequence[str], exists: bool, rule: PathRule) -> bool:
    if is_heavy(rule.pattern):
        return any(_reaches(rule, exists, form) for form in forms)
    return any(_reach(rule, exists, "~" in form).fullmatch(form) for form in forms)

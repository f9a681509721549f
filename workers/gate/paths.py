"""Which paths a run may change: globs, and what stands behind a name that only looks different.

A file system that ignores case, Unicode forms, invisible characters or what stands at a name's end
opens `.GitHub/workflows/x` as `.github/workflows/x`. So every path is also judged by its
canonical form. Pure.

Sources: git's `utf8.c` (`next_hfs_char`, the code points that HFS+ ignores) and `path.c`
(`is_ntfs_dotgit`).
"""

from __future__ import annotations

import functools
import re
import unicodedata
from collections.abc import Sequence

from workers.gate.values import GateRules, Level, PathRule, strongest

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
    return compiled(pattern).fullmatch(path.decode("utf-8", "surrogateescape")) is not None


@functools.lru_cache(maxsize=2_048)
def compiled(pattern: str) -> re.Pattern[str]:
    """Return the pattern as a regular expression for whole paths."""
    swaps = {"**/": "(?:.*/)?", "/**": "(?:/.*)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    parts = re.split(r"(\*\*/|/\*\*|\*\*|\*|\?)", pattern)
    return re.compile("".join(swaps.get(p, re.escape(p)) for p in parts), re.IGNORECASE | re.DOTALL)


@functools.lru_cache(maxsize=64)
def _any_of(patterns: tuple[str, ...]) -> re.Pattern[str]:
    joined = "|".join(f"(?:{compiled(pattern).pattern})" for pattern in patterns)
    return re.compile(joined or r"(?!)", re.IGNORECASE | re.DOTALL)


@functools.lru_cache(maxsize=64)
def _folders_of(patterns: tuple[str, ...]) -> frozenset[str]:
    """Return every folder that some pattern lies in."""
    split = [pattern.lower().split("/") for pattern in patterns]
    return frozenset("/".join(parts[:end]) for parts in split for end in range(1, len(parts)))


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
    if not _may_concern(forms, exists, rules):
        return None
    return next((rule for rule in rules if _concerns(forms, exists, rule.pattern)), None)


def _strongest_of(
    forms: Sequence[str], exists: bool, rules: tuple[PathRule, ...]
) -> PathRule | None:
    found = [rule for rule in rules if _concerns(forms, exists, rule.pattern)]
    if not found:
        return None
    level = strongest(*(rule.level for rule in found))
    return next(rule for rule in found if rule.level is level)


def _may_concern(forms: Sequence[str], exists: bool, rules: tuple[PathRule, ...]) -> bool:
    """One search instead of fifty, for the many paths that no rule is about."""
    pattern = _any_of(tuple(rule.pattern for rule in rules))
    if any(pattern.fullmatch(form) for form in forms):
        return True
    above = _folders_of(tuple(rule.pattern for rule in rules))
    return exists and any(form.lower() in above for form in forms)


def _concerns(forms: Sequence[str], exists: bool, pattern: str) -> bool:
    whole = compiled(pattern)
    return any(whole.fullmatch(form) or (exists and _stands_above(form, pattern)) for form in forms)


def _stands_above(form: str, pattern: str) -> bool:
    """Return whether a link or file took the place of a folder that the pattern lies in."""
    return pattern.lower().startswith(form.lower() + "/")

"""Whether a set-up command installs only what is pinned: by version and hash, or by a lock file.

Pure. For operators who set `pinned_only`: what a registry serves today must be what it served when
somebody looked at it. It is a rule for maintainers, told before anything runs; the machine is the
boundary for whoever means harm.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import PurePosixPath

_SEPARATORS = frozenset("();<>|&")
_PIP_VALUE_FLAGS = frozenset({"-c", "--constraint", "-t", "--target", "--prefix", "--root"})
_NPM_INSTALLS = frozenset({"install", "i", "add", "in", "update", "up"})


def unpinned(command: str) -> str | None:
    """Say what in a command is not pinned, and the line to write instead; None when all is."""
    try:
        lexer = shlex.shlex(command.replace("\n", " ; "), posix=True, punctuation_chars=True)
        lexer.whitespace_split = True
        words = list(lexer)
    except ValueError:
        return f"{command!r} cannot be read as a shell command, so it cannot be checked"
    found = (_problem(part) for part in _simple_commands(words))
    return next((problem for problem in found if problem is not None), None)


def _simple_commands(words: Sequence[str]) -> list[list[str]]:
    parts: list[list[str]] = [[]]
    for word in words:
        if word and set(word) <= _SEPARATORS:
            parts.append([])
        else:
            parts[-1].append(word)
    return [part for part in parts if part]


def _problem(words: list[str]) -> str | None:
    while words and (words[0] in ("sudo", "env", "exec") or _is_assignment(words[0])):
        words = words[1:]
    if not words:
        return None
    name = PurePosixPath(words[0]).name
    if name.startswith("python") and words[1:3] == ["-m", "pip"]:
        name, words = "pip", words[2:]
    if name.startswith("pip") and "install" in words:
        return _pip_problem(words[words.index("install") + 1 :])
    if name == "npm" and len(words) > 1 and words[1] in _NPM_INSTALLS:
        return _change(words, "npm ci", "npm ci takes exactly what package-lock.json says")
    if name in ("apt-get", "apt") and "install" in words:
        return _apt_problem(words, words[words.index("install") + 1 :])
    return None


def _is_assignment(word: str) -> bool:
    name, equals, _ = word.partition("=")
    return bool(equals) and name.isidentifier()


def _pip_problem(arguments: list[str]) -> str | None:
    if "--require-hashes" in arguments:
        return None
    wanted = [each for each in _pip_targets(arguments) if not _is_local(each)]
    local_alone = not wanted and ("--no-deps" in arguments or "--no-index" in arguments)
    if local_alone:
        return None
    line = "pip install --require-hashes -r requirements.txt"
    hint = "pip-compile --generate-hashes writes such a file"
    if not wanted:
        line, hint = "pip install --no-deps -e .", "its dependencies come from a file with hashes"
    return _change(["pip", "install", *arguments], line, hint)


def _pip_targets(arguments: list[str]) -> list[str]:
    targets = []
    skip = False
    for word in arguments:
        if skip:
            skip = False
        elif word in _PIP_VALUE_FLAGS:
            skip = True
        elif word in ("-r", "--requirement") or not word.startswith("-"):
            targets.append(word)
    return targets


def _is_local(target: str) -> bool:
    return target.startswith((".", "/"))


def _apt_problem(words: list[str], arguments: list[str]) -> str | None:
    loose = [each for each in arguments if not each.startswith("-") and "=" not in each]
    if not loose:
        return None
    pinned = [f"{each}=VERSION" if each in loose else each for each in words]
    return _change(words, shlex.join(pinned), "the archive's signed index holds the hashes")


def _change(words: Sequence[str], line: str, hint: str) -> str:
    return (
        f"this host installs only what is pinned: instead of `{shlex.join(words)}` write `{line}` "
        f"({hint})"
    )

"""Bodies cut to what GitHub takes, without leaving anything open. Pure.

GitHub's limit for a comment, issue or pull request is 65,536 characters. Characters are counted
here as UTF-16 units, which is never fewer than any way of counting that GitHub may use.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

BODY_LIMIT = 65_536
MIN_LIMIT = 1_000
_MARKER = re.compile(r"<!-- drydock:[^<>\n]{1,200} -->")
_FENCE = re.compile(r"^(?:> ?)* {0,3}(`{3,}|~{3,})")


def github_length(text: str) -> int:
    """Return the length of `text` as GitHub counts at most."""
    return len(text) + sum(char > "\uffff" for char in text)


def clip(body: str, limit: int = BODY_LIMIT, more_url: str | None = None) -> str:
    """Return `body`, or as much of it as `limit` takes with a note of what was left out.

    Our marker is kept, open code blocks and details are closed. `more_url` is where the rest can
    be read. ValueError for a limit below `MIN_LIMIT`.
    """
    if limit < MIN_LIMIT:
        raise ValueError(f"a body cannot be cut below {MIN_LIMIT} characters")
    if github_length(body) <= limit:
        return body
    room = limit
    while True:
        clipped = _cut(body, max(0, room), more_url)
        excess = github_length(clipped) - limit
        if excess <= 0:
            return clipped
        room = min(room, github_length(body)) - excess


def _cut(body: str, room: int, more_url: str | None) -> str:
    kept = _whole_lines(_prefix(body, room))
    marker = _MARKER.search(body)
    lost = marker is not None and marker.group() not in kept
    start = f"{marker.group()}\n" if marker is not None and lost else ""
    return start + kept + _closings(kept) + _note(len(body) - len(kept), more_url)


def _prefix(text: str, room: int) -> str:
    """The longest beginning that has at most `room` units."""
    used = 0
    for index, char in enumerate(text):
        used += 2 if char > "\uffff" else 1
        if used > room:
            return text[:index]
    return text


def _whole_lines(text: str) -> str:
    """End at a line's end, unless the last line is so long that most would be lost."""
    cut = text.rfind("\n")
    return text[:cut] if cut > len(text) // 2 else text


def _note(count: int, more_url: str | None) -> str:
    where = f" The rest is on the [run page]({more_url})." if more_url else ""
    return f"\n\n*{count:,} characters were left out here.*{where}\n"


def _closings(text: str) -> str:
    """What has to follow so that nothing stays open: a code block is always the innermost."""
    fence, details = "", 0
    for opened, line in _lines(text):
        fence = opened
        if not opened:
            details += line.count("<details>") - line.count("</details>")
    return (f"\n{fence}" if fence else "") + "\n\n</details>" * max(0, details)


def _lines(text: str) -> Iterator[tuple[str, str]]:
    """Yield each line with the fence that is open after it, "" for none."""
    fence = ""
    for line in text.split("\n"):
        found = _FENCE.match(line)
        if found and not fence:
            fence = found.group(1)
        elif found and found.group(1).startswith(fence) and not line[found.end() :].strip():
            fence = ""
        yield fence, line

"""Text from outside, made harmless before a person, GitHub or a model reads it.

Everything here is total: any `str` is accepted, lone surrogates included. Pure.

The neutralising rules are context-free on purpose: a zero-width space goes behind the character
that would start something, in prose and code alike. Deciding by a Markdown parser what is code
would make every difference between that parser and GitHub's a hole.
"""

from __future__ import annotations

import re
import unicodedata

ZERO_WIDTH_SPACE = "\u200b"
_EMOJI_SELECTOR = "\ufe0f"

# Drawn as nothing although Unicode does not class them as format characters.
_BLANK_LOOKING = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u180e\u2800\u3164\uffa0")
_KEPT_CONTROLS = frozenset("\n\t")
# Unassigned is not among them: it is mostly emoji that are newer than Python's tables.
_HIDDEN_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Co"})
# Variation selectors and the plane of tags, which are used to smuggle text.
_HIDDEN = re.compile("[\ufe00-\ufe0f\U000e0000-\U000e0fff]")

_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
_LINE_ENDS = re.compile("\r\n?|[\u0085\u2028\u2029\v\f]")

# What GitHub acts on: mentions, issue numbers in three spellings, issue addresses, tags and
# comments, entities that spell any of these, inline links and images, link definitions, schemes.
_ACTIVE = re.compile(
    r"""
      @(?=[\w])
    | \#(?=\d)
    | GH(?=\\?-)
    | (?<=/issues/)(?=\d) | (?<=/pull/)(?=\d) | (?<=/discussions/)(?=\d)
    | <(?=[A-Za-z/!?])
    | &(?=[\#A-Za-z])
    | \](?=[(:\[])
    | (?:javascript|vbscript|data)(?=:)
    """,
    re.IGNORECASE | re.VERBOSE,
)
_SKIP_CI = re.compile(
    r"\[((?:skip ci)|(?:ci skip)|(?:no ci)|(?:skip actions)|(?:actions skip))\]", re.IGNORECASE
)
_MARKDOWN = re.compile(r"([\\`*_\[\]~|<>#])")


def is_invisible(char: str) -> bool:
    """True for control, format and private characters and what is drawn as nothing."""
    if char in _KEPT_CONTROLS:
        return False
    if char in _BLANK_LOOKING or _HIDDEN.match(char):
        return True
    return unicodedata.category(char) in _HIDDEN_CATEGORIES


def strip_invisible(text: str) -> tuple[str, int]:
    """Return the text with `\\n` line ends and without invisible characters, and how many went.

    Zero-width and bidirectional controls are among them. The selector that colours an emoji goes
    too, but is so common that it is not counted.
    """
    unified = _LINE_ENDS.sub("\n", text)
    kept = "".join(c for c in unified if not is_invisible(c))
    return kept, len(unified) - len(kept) - unified.count(_EMOJI_SELECTOR)


def visible(text: str) -> str:
    """Return `text` without terminal colours and invisible characters."""
    return strip_invisible(_ANSI.sub("", text))[0]


def neutralise(text: str) -> str:
    """Return Markdown from outside that can no longer do anything on GitHub but be read.

    It cannot mention people or teams, refer to or close issues, hold HTML or one of our markers,
    or link under another name. Applying it again changes nothing.
    """
    return _ACTIVE.sub(lambda found: found.group() + ZERO_WIDTH_SPACE, visible(text))


def one_line(text: str, limit: int = 200) -> str:
    """Return plain text on one line of at most `limit` characters, the cut shown as `…`."""
    line = " ".join(visible(text).split())
    return line if len(line) <= limit else line[: limit - 1].rstrip() + "…"


def inline(text: str, limit: int = 200) -> str:
    """Return `text` for the middle of a Markdown line: every sign stands for itself."""
    escaped = _MARKDOWN.sub(r"\\\1", one_line(text, limit))
    return _ACTIVE.sub(lambda found: found.group() + ZERO_WIDTH_SPACE, escaped)


def code_span(text: str, limit: int = 200) -> str:
    """Return `text` as inline code that it cannot end."""
    line = _break_markers(one_line(text, limit)) or " "
    ticks = "`" * (_longest_run(line) + 1)
    padded = f" {line} " if line.startswith("`") or line.endswith("`") else line
    return f"{ticks}{padded}{ticks}"


def code_block(text: str, language: str = "") -> str:
    """Return `text` as a fenced block that it cannot end."""
    body = _break_markers(visible(text)).strip("\n")
    ticks = "`" * max(3, _longest_run(body) + 1)
    return f"{ticks}{language}\n{body}\n{ticks}"


def quote(text: str) -> str:
    """Return `text`, neutralised, as a block quote that it cannot leave."""
    return "\n".join(f"> {line}".rstrip() for line in neutralise(text).strip().split("\n"))


def plain(text: str) -> str:
    """Return text for a commit message or a title, where no invisible character should stay.

    Mentions, issue numbers, their addresses and requests to skip checks are broken visibly:
    GitHub obeys those in commits, and closes issues by them when they are merged.
    https://docs.github.com/en/actions/how-tos/manage-workflow-runs/skip-workflow-runs
    """
    words = _SKIP_CI.sub(r"(\1)", visible(text))
    words = re.sub(r"([@#])(?=\w)", r"\1 ", words)
    words = re.sub(r"GH-(?=\d)", "GH ", words, flags=re.IGNORECASE)
    return re.sub(r"(/(?:issues|pull|discussions)/)(?=\d)", r"\1 ", words)


def _break_markers(text: str) -> str:
    """Code is shown as it is, except what a search for our markers or closing words could find."""
    text = re.sub(r"<(?=!--)", "<" + ZERO_WIDTH_SPACE, text)
    return re.sub(r"#(?=\d)", "#" + ZERO_WIDTH_SPACE, text)


def _longest_run(text: str) -> int:
    return max((len(run) for run in re.findall("`+", text)), default=0)

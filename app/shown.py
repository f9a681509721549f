"""Markdown as a reader of the page sees it: what GitHub does not show is taken out and counted.

Whether something stands in code (where it is shown) is found by marking the place with a private
character and asking a real parser which token the mark ended up in. Pure and total.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.token import Token

from app.text import strip_invisible

_PASSES = 5


@dataclass(frozen=True)
class Removed:
    """How much was taken out because GitHub does not show it."""

    html_comments: int = 0
    invisible_characters: int = 0
    hidden_text: int = 0

    def __add__(self, other: Removed) -> Removed:
        return Removed(
            self.html_comments + other.html_comments,
            self.invisible_characters + other.invisible_characters,
            self.hidden_text + other.hidden_text,
        )

    def __bool__(self) -> bool:
        return bool(self.html_comments or self.invisible_characters or self.hidden_text)


def as_shown(text: str) -> tuple[str, Removed]:
    """Return the Markdown that a reader of the page sees, and what was taken out.

    Gone are HTML comments, invisible characters, attributes of tags, titles of links, and link
    definitions that no link uses; images become their address. Code stays as it is.
    """
    shown, invisible = strip_invisible(text)
    shown, comments = _drop_comments(shown)
    hidden = 0
    for step in (_drop_definitions, _strip_tags, _link_images, _drop_link_titles):
        shown, count = step(shown)
        hidden += count
    return shown.strip(), Removed(comments, invisible, hidden)


def describe_removed(removed: Removed) -> str:
    """Say in words what was removed; "nothing" when nothing was."""
    counted = (
        (removed.html_comments, "HTML comment", "HTML comments"),
        (removed.invisible_characters, "invisible character", "invisible characters"),
        (removed.hidden_text, "piece of hidden text", "pieces of hidden text"),
    )
    words = [f"{n} {one if n == 1 else many}" for n, one, many in counted if n]
    return ", ".join(words) or "nothing"


@dataclass(frozen=True)
class _Rule:
    """Replace `whole` by `by` where `opener` starts one, unless it is in a `kept` kind of token.

    `mark` is how a mark is written behind the opener without changing how the rest is read.
    """

    opener: re.Pattern[str]
    whole: re.Pattern[str]
    kept: frozenset[str]
    by: Callable[[re.Match[str]], str]
    mark: str = "{}"


# strip_invisible has removed every private character, so the mark cannot be forged.
_MARK = "\ue000"
_MARKED = re.compile(rf"{_MARK}(\d+){_MARK}")
_CODE = frozenset({"fence", "code_block", "code_inline"})
# An unclosed comment or tag in a sentence is shown by GitHub: it is in a text token, and stays.
_VISIBLE = _CODE | {"text"}

_COMMENTS = _Rule(
    re.compile(r"<!--|<\?|<!\[CDATA\[|<![A-Za-z]"),
    re.compile(
        r"<!--(?:-?>|.*?(?:-->|\Z))|<\?.*?(?:\?>|\Z)"
        r"|<!\[CDATA\[.*?(?:\]\]>|\Z)|<![A-Za-z].*?(?:>|\Z)",
        re.DOTALL,
    ),
    _VISIBLE,
    lambda _: "",
)
_ATTRIBUTE = r"""\s+[^\s"'<>/=]+(?:\s*=\s*(?:"[^"]*"|'[^']*'|[^\s"'=<>`]+))?"""
_TAGS = _Rule(
    re.compile(r"<[A-Za-z][A-Za-z0-9-]*(?=\s)"),
    re.compile(rf"<(?P<name>[A-Za-z][A-Za-z0-9-]*)(?P<rest>(?:{_ATTRIBUTE})+)(?P<end>\s*/?>)"),
    _VISIBLE,
    lambda match: _bare_tag(match),  # noqa: PLW0108 - it is defined further down
    ' m="{}"',
)
_ALT = r"(?:\\.|[^\[\]\\]|\[(?:\\.|[^\[\]\\])*\])*"
_IMAGES = _Rule(
    re.compile(r"!\["),
    re.compile(
        rf"""!\[{_ALT}\](?:\(\s*+<?([^()\s<>]*+)>?(?:\s++(?:"[^"]*"|'[^']*'))?+\s*+\)|\[([^\[\]]*)\])"""
    ),
    _CODE,
    lambda match: f"(image: {match.group(1) or match.group(2)})",
)
_TITLES = _Rule(
    re.compile(r"\]\("),
    re.compile(r"""(\]\(\s*<?[^()\s<>"']+>?)\s+(?:"[^"]*"|'[^']*'|\([^()]*\))\s*\)"""),
    _CODE,
    lambda match: f"{match.group(1)})",
)
_ADDRESS = re.compile(r"""\b(?:src|href)\s*=\s*("[^"]*"|'[^']*'|[^\s"'>]+)""", re.IGNORECASE)


def _drop_comments(text: str) -> tuple[str, int]:
    """Taking one out can make another, so this goes on until there is none."""
    total = 0
    for _ in range(_PASSES):
        text, count = _apply(_COMMENTS, text)
        total += count
        if not count:
            return text, total
    # Nested to hide something: shown to the model rather than chased further.
    return text.replace("<!", "<\\!").replace("<?", "<\\?"), total


def _strip_tags(text: str) -> tuple[str, int]:
    return _apply(_TAGS, text)


def _link_images(text: str) -> tuple[str, int]:
    """An image is not hidden: it is counted by nobody."""
    return _apply(_IMAGES, text)[0], 0


def _drop_link_titles(text: str) -> tuple[str, int]:
    return _apply(_TITLES, text)


def _bare_tag(match: re.Match[str]) -> str:
    kept = _ADDRESS.search(match["rest"])
    address = kept.group(1).strip("\"'") if kept else ""
    if match["name"].lower() == "img":
        return f"(image: {address})"
    attribute = f' href="{address}"' if match["name"].lower() == "a" and address else ""
    return f"<{match['name']}{attribute}{match['end'].strip()}"


def _apply(rule: _Rule, text: str) -> tuple[str, int]:
    """Return the text with the rule applied, and how often it changed something."""
    contexts = _contexts(rule, text)
    pieces, last, count = [], 0, 0
    for number, opener in enumerate(rule.opener.finditer(text)):
        if opener.start() < last or contexts.get(number) in rule.kept:
            continue
        whole = rule.whole.match(text, opener.start())
        if whole is None:
            continue
        new = rule.by(whole)
        count += new != whole.group()
        pieces += [text[last : whole.start()], new]
        last = whole.end()
    return "".join((*pieces, text[last:])), count


def _contexts(rule: _Rule, text: str) -> Mapping[int, str]:
    """Return the type of the token that each opener is in; missing for one in an address."""
    pieces, last = [], 0
    for number, opener in enumerate(rule.opener.finditer(text)):
        mark = rule.mark.format(f"{_MARK}{number}{_MARK}")
        pieces += [text[last : opener.end()], mark]
        last = opener.end()
    if not pieces:
        return {}
    tokens = _flatten(_parse("".join((*pieces, text[last:])), {}))
    leaves = (token for token in tokens if not token.children)
    return {int(n): leaf.type for leaf in leaves for n in _MARKED.findall(leaf.content)}


def _drop_definitions(text: str) -> tuple[str, int]:
    """`[x]: # (words)` shows nothing; one that a link uses keeps its address only."""
    env: dict[str, Any] = {}
    tokens = _flatten(_parse(text, env))
    used = {token.meta["label"] for token in tokens if "label" in token.meta}
    definitions = [*env.get("references", {}).items()]
    definitions += [("", again) for again in env.get("duplicate_refs", ())]
    lines, count = text.split("\n"), 0
    for label, definition in definitions:
        kept = f"[{label}]: {definition['href']}" if label in used else ""
        count += not kept or bool(definition["title"])
        start, end = definition["map"]
        lines[start:end] = [kept, *[""] * (end - start - 1)]
    return "\n".join(lines), count


def _parse(text: str, env: dict[str, Any]) -> list[Token]:
    return MarkdownIt("commonmark", {"store_labels": True}).enable("table").parse(text, env)


def _flatten(tokens: Iterable[Token]) -> Iterable[Token]:
    for token in tokens:
        yield token
        yield from _flatten(token.children or ())

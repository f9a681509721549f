"""Markdown as a reader of the page sees it: what GitHub does not show is left out and counted.

The page is written anew from what a parser makes of the source, never cut out of the source: what
no rule here writes is not there. Pure and total; its time grows with the length of the text.

Known to be kept though a reader has to look for it: the addresses of links and images (shown by
pointing at them), text in `<details>`, and text that is drawn small.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from markdown_it.token import Token

from app.markdown import Markdown, holds_odd_table, read_markdown
from app.spans import UNFORGED, Spans
from app.text import strip_invisible


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
    """Return the Markdown that a reader of the page sees, and what was left out.

    Gone are HTML comments, invisible characters, tags that GitHub does not know, attributes, titles
    of links, links around nothing, what follows a code block's language, definitions and footnotes
    that nothing refers to, cells beyond a table's columns, and drawings (a diagram or formula is
    not text). An image becomes its address; its text, shown where it is missing, is not counted.
    """
    # Read first: to GitHub's parser an invisible character is one like others.
    markdown = read_markdown(text.translate(UNFORGED))
    page = _Page(markdown)
    # An entity may have spelled what was not there before.
    shown, spelled = strip_invisible(page.text())
    invisible = max(spelled, strip_invisible(text)[1])
    hidden = markdown.unseen + page.spans.hidden + page.hidden
    return shown.strip(), Removed(page.spans.comments, invisible, hidden)


def describe_removed(removed: Removed) -> str:
    """Say in words what was removed; "nothing" when nothing was."""
    counted = (
        (removed.html_comments, "HTML comment", "HTML comments"),
        (removed.invisible_characters, "invisible character", "invisible characters"),
        (removed.hidden_text, "piece of hidden text", "pieces of hidden text"),
    )
    words = [f"{n} {one if n == 1 else many}" for n, one, many in counted if n]
    return ", ".join(words) or "nothing"


# A word of so few letters names a language and gives no orders.
_LANGUAGE = re.compile(r"[A-Za-z][A-Za-z0-9+#]{0,15}")
# What GitHub draws from a block of code, instead of showing it.
_DRAWN = frozenset({"mermaid", "geojson", "topojson", "stl", "math"})


class _Prefix:
    """What stands in front of a container's lines: `first` once, then `rest`."""

    def __init__(self, first: str, rest: str) -> None:
        self._first: str | None = first
        self.rest = rest

    def take(self) -> str:
        first, self._first = self._first, None
        return self.rest if first is None else first

    @property
    def used(self) -> bool:
        return self._first is None


class _Page:
    """Writes a page from its tokens: each kind of block has one method, in `_WRITE`."""

    def __init__(self, markdown: Markdown) -> None:
        numbers = {label: number for number, label in enumerate(markdown.footnotes, 1)}
        self.spans = Spans(numbers)
        self.hidden = 0
        self._tokens = markdown.tokens
        self._at = 0
        self._lines: list[str] = []
        self._prefixes: list[_Prefix] = []
        self._gap = False

    def text(self) -> str:
        """Return the whole page. It can be asked for once."""
        while self._at < len(self._tokens):
            token = self._tokens[self._at]
            self._at += 1
            write = _WRITE.get(token.type)
            if write is not None:
                write(self, token)
        return "\n".join(self._lines)

    def _put(self, text: str, *, tight: bool = False) -> None:
        """Write one block's lines, with an empty one before it unless the list is tight."""
        if not text.strip():
            return
        if self._gap or not tight:
            self._blank()
        self._gap = not tight
        for line in text.split("\n"):
            self._lines.append("".join(p.take() for p in self._prefixes) + line.rstrip())

    def _blank(self) -> None:
        if self._lines:
            used = itertools.takewhile(lambda prefix: prefix.used, self._prefixes)
            self._lines.append("".join(prefix.rest for prefix in used).rstrip())

    # --- containers ---

    def _open_quote(self, token: Token) -> None:
        self._prefixes.append(_Prefix("> ", "> "))

    def _open_item(self, token: Token) -> None:
        mark = f"{token.info}{token.markup} "
        self._prefixes.append(_Prefix(mark, " " * len(mark)))

    def _open_footnote(self, token: Token) -> None:
        number = self.spans.footnotes[token.meta["footnote"]]
        self._prefixes.append(_Prefix(f"[^{number}]: ", "    "))

    def _close(self, token: Token) -> None:
        self.spans.end_item(len(self._prefixes))
        self._prefixes.pop()

    def _list(self, token: Token) -> None:
        self._gap = self._gap or not self._prefixes

    # --- leaves ---

    def _inline(self, token: Token) -> None:
        before = self._tokens[self._at - 2]
        if holds_odd_table(token.content):
            self._unread(token)
            return
        mark = f"{'#' * int(before.tag[1])} " if before.type == "heading_open" else ""
        item = len(self._prefixes) if before.hidden else 0
        shown = self.spans.of_tokens(token.children or (), item)
        self._put(mark + shown if shown.strip() else "", tight=before.hidden)

    def _html(self, token: Token) -> None:
        self._put(self.spans.of_html(token.content).strip("\n"))

    def _fence(self, token: Token) -> None:
        language = token.info.split(maxsplit=1)[0] if token.info.strip() else ""
        content = self.spans.of_code(token.content)
        if language.lower() in _DRAWN:
            self.hidden += 1
            self._put(f"(drawing: {language.lower()})")
            return
        known = language if _LANGUAGE.fullmatch(language) else ""
        self.hidden += known != token.info.strip()
        self._put(f"{token.markup}{known}\n{content}{token.markup}" if content.strip() else "")

    def _code(self, token: Token) -> None:
        lines = self.spans.of_code(token.content).rstrip("\n").split("\n")
        self._put("\n".join(f"    {line}" for line in lines))

    def _rule(self, token: Token) -> None:
        self._put(self.spans.of_code("---"))

    def _unread(self, token: Token) -> None:
        self.hidden += 1
        self.spans.pass_over(token.content)

    def _table(self, token: Token) -> None:
        """Write a table row by row; the parser has left out cells that no column is for."""
        rows: list[list[str]] = []
        while (token := self._tokens[self._at]).type != "table_close":
            self._at += 1
            if token.type == "tr_open":
                rows.append([])
            elif token.type == "inline":
                rows[-1].append(self.spans.of_tokens(token.children or ()))
        if any(cell.strip() for row in rows for cell in row):
            rows.insert(1, ["-"] * len(rows[0]))
            self._put("\n".join(f"| {' | '.join(row)} |" for row in rows))


_WRITE: Mapping[str, Callable[[_Page, Token], None]] = {
    "blockquote_open": _Page._open_quote,
    "list_item_open": _Page._open_item,
    "footnote_open": _Page._open_footnote,
    "blockquote_close": _Page._close,
    "list_item_close": _Page._close,
    "footnote_close": _Page._close,
    "bullet_list_open": _Page._list,
    "ordered_list_open": _Page._list,
    "bullet_list_close": _Page._list,
    "ordered_list_close": _Page._list,
    "inline": _Page._inline,
    "html_block": _Page._html,
    "fence": _Page._fence,
    "code_block": _Page._code,
    "hr": _Page._rule,
    "unread": _Page._unread,
    "table_open": _Page._table,
}

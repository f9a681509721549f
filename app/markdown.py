"""Markdown read as GitHub reads it, in time that grows with its length: markdown-it, mended. Pure.

What differs from markdown-it: brackets are matched once for a whole paragraph (it looks for the
end of each `[` anew); footnotes are known; the text of an image is not read; every address makes a
link, also one that GitHub then takes away; what two versions of CommonMark read in two ways is not
read at all but told as `unread`.

Sources: CommonMark 0.31 "Phase 2: inline structure"; GFM's tables; cmark-gfm's footnotes
(blocks.c, `scan_footnote_definition`).
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from markdown_it import MarkdownIt, helpers
from markdown_it.common.html_re import HTML_OPEN_CLOSE_TAG_STR
from markdown_it.ruler import RuleOptionsType
from markdown_it.rules_block import StateBlock, heading, html_block
from markdown_it.rules_block import blockquote as read_quote
from markdown_it.rules_block import table as read_table
from markdown_it.rules_inline import StateInline, autolink, backtick, escape, html_inline
from markdown_it.rules_inline import image as read_image
from markdown_it.rules_inline import link as read_link
from markdown_it.token import Token

# Cells that a row lacks are made up: without a limit, a page of few letters has millions.
MAX_CELLS = 10_000
# Each level looks at each line below, and all of these may be one paragraph's.
MAX_QUOTES = 6
_NESTING = 20
# What stands for "the pairs of this paragraph are known" among them: no bracket is there.
_MATCHED = -1
_PLAIN = re.compile(r"[^\\`<\[\]!]+")
_LABEL = re.compile(r"\[(?:[^\[\]\\]|\\.){0,1000}\]", re.DOTALL)
_FOOTNOTE = re.compile(r"\[\^([^\]\s\0]+)\]")
# `source` opened a block until CommonMark 0.30, `search` does since 0.31, `textarea` holds lines as
# they are since 0.30, and what begins with a small letter is a declaration since then.
_UNSURE = re.compile(r"</?(?ai:source|search|textarea)(?=\s|/?>|$)|<![a-z]")
# A line of just a tag ends a table for GitHub, and is a row of it for markdown-it.
_TAG_LINE = re.compile(rf"(?:{HTML_OPEN_CLOSE_TAG_STR})\s*$", re.IGNORECASE)
_DELIMITERS = re.compile(r"\s*+\|?\s*+:?-++:?\s*+(?:\|\s*+:?-++:?\s*+)*+\|?\s*+")
_EMPTY_ITEM = re.compile(r"(?:[-+*]|\d{1,9}[.)])\s*")
_ONE_DELIMITER = re.compile(r"\s*\|?\s*:?-+:?\s*\|?\s*")
# What GitHub makes a link of by itself goes on to the next blank, over what looks like a reference.
_BARE_LINK = re.compile(r"(?:://|www\.|@|mailto:|xmpp:)[^\s<]*$", re.IGNORECASE)
_LOOK_BACK = 300
_TEXTAREA = re.compile(r"<textarea", re.IGNORECASE)
_TEXTAREA_END = re.compile(r"</textarea>", re.IGNORECASE)


@dataclass(frozen=True)
class Markdown:
    """`tokens` as markdown-it makes them, `footnotes` the labels that some text refers to.

    Footnotes stand at the end, in the order of their numbers. `unseen` counts definitions and
    footnotes that nothing refers to, cells beyond a table's columns, and what was not read because
    it is nested too deep.
    """

    tokens: Sequence[Token]
    footnotes: Sequence[str] = field(default_factory=tuple)
    unseen: int = 0


def read_markdown(text: str) -> Markdown:
    """Read the Markdown of one comment. Total: any text is Markdown."""
    env: dict[str, Any] = {}
    tokens = _parser().parse(text, env)
    used = {token.meta["label"] for token in _leaves(tokens) if "label" in token.meta}
    unused = set(env.get("references", ())) - used
    unseen = len(unused) + len(env.get("duplicate_refs", ())) + env.get("cells", 0)
    footnotes = tuple(_referred(tokens))
    ordered, unreferred = _footnotes_last(tokens, footnotes)
    return Markdown(ordered, footnotes, unseen + unreferred + _unread(tokens))


def _parser() -> MarkdownIt:
    markdown = MarkdownIt("commonmark", {"store_labels": True, "maxNesting": _NESTING})
    markdown.helpers = SimpleNamespace(**{**vars(helpers), "parseLinkLabel": _label_end})  # type: ignore[assignment]
    markdown.validateLink = lambda url: True  # type: ignore[method-assign]
    block, inline = markdown.block.ruler, markdown.inline.ruler
    interrupts: RuleOptionsType = {"alt": ["paragraph", "reference", "blockquote", "list"]}
    block.at("blockquote", _quote, interrupts)
    block.before("reference", "footnote", _footnote, interrupts)
    block.before("reference", "gfm_table", _table, {"alt": ["paragraph", "reference"]})
    block.before("html_block", "unsure", _unsure, interrupts)
    block.before("html_block", "tag_line", _tag_line, {"alt": ["paragraph", "blockquote"]})
    block.before("list", "odd_head", _odd_head, {"alt": []})
    inline.at("image", _image)
    inline.after("image", "footnote_ref", _footnote_ref)
    return markdown


def _leaves(tokens: Sequence[Token]) -> Iterator[Token]:
    for token in tokens:
        yield token
        yield from token.children or ()


def _referred(tokens: Sequence[Token]) -> Iterator[str]:
    """Yield the footnotes that are referred to outside of footnotes, in order, each once."""
    depth = 0
    seen: set[str] = set()
    for token in _leaves(tokens):
        depth += {"footnote_open": 1, "footnote_close": -1}.get(token.type, 0)
        label = token.meta.get("footnote", "")
        if token.type == "footnote_ref" and not depth and label not in seen:
            seen.add(label)
            yield label


def _footnotes_last(
    tokens: Sequence[Token], referred: Sequence[str]
) -> tuple[Sequence[Token], int]:
    """Move footnotes to where a page has them, and count those that are on no page.

    cmark-gfm takes the first of several with one label, and none without a reference.
    """
    page: list[Token] = []
    notes: dict[str, list[Token]] = {}
    inside: list[list[Token]] = [page]
    count = 0
    for token in tokens:
        if token.type == "footnote_open":
            count += 1
            inside.append([])
        inside[-1].append(token)
        if token.type == "footnote_close":
            note = inside.pop()
            kept = notes.setdefault(note[0].meta["footnote"], note)
            page.extend(t for t in note if kept is not note and t.type == "unread")
    last = [token for label in referred for token in notes.pop(label)]
    # What was not read may hide more than its own footnote.
    unread = [token for note in notes.values() for token in note if token.type == "unread"]
    return [*page, *unread, *last], count - len(referred)


def _unread(tokens: Sequence[Token]) -> int:
    """Count what markdown-it passed over without a token because it is nested too deep."""
    deep = (t for t in tokens if t.nesting == 1 and t.level >= _NESTING - 1)
    closed = {id(a) for a, b in itertools.pairwise(tokens) if b.nesting == -1}
    return sum(id(token) in closed for token in deep)


# --- brackets -------------------------------------------------------------------------------------


def _label_end(state: StateInline, start: int, disableNested: bool = False) -> int:  # noqa: N803 - its caller's name
    """Return where the `]` of the `[` at `start` is, or -1."""
    if _MATCHED not in state.cache:
        state.cache[_MATCHED] = 0
        _match_brackets(state)
    end = state.cache.get(start)
    if end is None and not disableNested:
        found = _LABEL.match(state.src, start, state.posMax)
        return found.end() - 1 if found else -1
    return -1 if end is None or end >= state.posMax else end


@dataclass
class _Openers:
    """The brackets that are open, the innermost last; those below `dead` can be no links."""

    open: list[tuple[int, bool]] = field(default_factory=list)
    dead: int = 0


def _match_brackets(state: StateInline) -> None:
    """Note the end of every bracket that may be a link's or an image's, from the inside out.

    A link holds no other: once one is found, the brackets that are open around it are text.
    """
    pos, maximum, kept = state.pos, state.posMax, state.tokens_meta
    state.pos, state.posMax = 0, len(state.src)
    openers = _Openers()
    while state.pos < state.posMax:
        plain = _PLAIN.match(state.src, state.pos)
        if plain is not None:
            state.pos = plain.end()
        elif not any(rule(state, True) for rule in (escape, backtick, autolink, html_inline)):
            _take_bracket(state, openers)
    state.pos, state.posMax, state.tokens_meta = pos, maximum, kept


def _take_bracket(state: StateInline, openers: _Openers) -> None:
    at = state.pos
    image = state.src.startswith("![", at)
    state.pos += 1 + image
    if image or state.src[at] == "[":
        openers.open.append((state.pos - 1, image))
    elif state.src[at] == "]" and openers.open:
        _close(state, at, openers)


def _close(state: StateInline, at: int, openers: _Openers) -> None:
    start, image = openers.open.pop()
    dead = not image and len(openers.open) < openers.dead
    openers.dead = min(openers.dead, len(openers.open))
    if dead:
        state.cache[start] = state.posMax
        return
    state.cache[start] = at
    state.pos = start - image
    if not (_image if image else read_link)(state, True):
        state.pos = at + 1
    elif not image:
        openers.dead = len(openers.open)


_QUIET = MarkdownIt("commonmark", {"store_labels": True})
_QUIET.inline.parse = lambda src, md, env, tokens: tokens  # type: ignore[method-assign]


def _image(state: StateInline, silent: bool) -> bool:
    """Read an image without the text in it, which would be read anew at each depth."""
    markdown = state.md
    _QUIET.helpers, _QUIET.validateLink = markdown.helpers, markdown.validateLink  # type: ignore[method-assign]
    state.md = _QUIET
    try:
        return read_image(state, silent)
    finally:
        state.md = markdown


# --- quotes and tables ----------------------------------------------------------------------------


def _table(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """Read a table; of one that is too large, or read in two ways, only say that it is there."""
    if any(rule(state, start, end, True) for rule in (html_block, heading, _unsure)):
        return False
    if start + 1 >= end or re.fullmatch(r"-+[ \t]*", _line(state, start + 1)):
        # To GitHub that line makes a heading.
        return False
    single = _is_single_column(state, start, end)
    if not single and not read_table(state, start, end, True):
        return False
    if silent:
        return True
    columns = len(_cells(_line(state, start)))
    below = _blank_line(state, start, end)
    parted = any(_TAG_LINE.match(_line(state, row)) for row in range(start + 2, below))
    if single or parted or columns * (below - start) > MAX_CELLS:
        return _pass_over(state, start, below)
    read_table(state, start, end, False)
    rows = range(start + 2, state.line)
    state.env["cells"] = state.env.get("cells", 0) + sum(
        len(_cells(_line(state, row))) > columns for row in rows
    )
    return True


def _is_single_column(state: StateBlock, start: int, end: int) -> bool:
    """A head without a sign of a table: one to GitHub, a paragraph to markdown-it."""
    if start + 1 >= end or state.is_code_block(start) or "|" in _line(state, start):
        return False
    if state.sCount[start + 1] < state.blkIndent:
        return False
    below = _line(state, start + 1)
    return "|" in below and _ONE_DELIMITER.fullmatch(below) is not None


def holds_odd_table(paragraph: str) -> bool:
    """Return whether a paragraph holds a table for GitHub though markdown-it found none."""
    lines = paragraph.split("\n")
    return any(
        "|" in below and _DELIMITERS.fullmatch(below) and len(_cells(head)) == len(_cells(below))
        for head, below in itertools.pairwise(lines)
    )


def _odd_head(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """An empty item is no list within a paragraph, and so may be the head of a table there."""
    if silent or not _EMPTY_ITEM.fullmatch(_line(state, start)):
        return False
    if not _is_single_column(state, start, end):
        return False
    return _pass_over(state, start, _blank_line(state, start, end))


def _tag_line(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """A line of just a tag ends, for GitHub, a paragraph that only goes on lazily."""
    if not silent or not _TAG_LINE.match(_line(state, start)):
        return False
    lazy = state.parentType == "paragraph" and state.sCount[start] < state.blkIndent
    return lazy or state.parentType == "blockquote"


def _quote(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """Read a quote; of one in too many others only say that it is there."""
    if silent or not read_quote(state, start, end, True):
        return read_quote(state, start, end, silent)
    depth = state.env.get("quotes", 0)
    if depth == MAX_QUOTES:
        return _pass_over(state, start, _blank_line(state, start, end))
    state.env["quotes"] = depth + 1
    read_quote(state, start, end, False)
    state.env["quotes"] = depth
    return True


def _cells(line: str) -> list[str]:
    cells = re.split(r"(?<!\\)\|", line.strip())
    return cells[not cells[0] : len(cells) - (not cells[-1])]


def _line(state: StateBlock, line: int) -> str:
    return state.src[state.bMarks[line] + state.tShift[line] : state.eMarks[line]]


def _blank_line(state: StateBlock, start: int, end: int) -> int:
    return next((line for line in range(start, end) if state.isEmpty(line)), end)


def _pass_over(state: StateBlock, start: int, end: int) -> bool:
    token = state.push("unread", "", 0)
    token.map = [start, end]
    token.content = state.src[state.bMarks[start] : state.eMarks[max(start, end - 1)]]
    state.line = end
    return True


# --- what versions of CommonMark read in two ways -------------------------------------------------


def _unsure(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    line = _line(state, start)
    if state.is_code_block(start) or not _UNSURE.match(line):
        return False
    if silent:
        return True
    stop = _blank_line(state, start, end)
    if _TEXTAREA.match(line):
        lines = range(start, end)
        closes = (at + 1 for at in lines if _TEXTAREA_END.search(_line(state, at)))
        stop = max(stop, next(closes, end))
    return _pass_over(state, start, stop)


# --- footnotes ------------------------------------------------------------------------------------


def _footnote(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """Read `[^label]: text`, which holds the lines below that are indented by four."""
    first = state.bMarks[start] + state.tShift[start]
    found = _FOOTNOTE.match(state.src, first, state.eMarks[start])
    if state.is_code_block(start) or found is None or state.src[found.end() :][:1] != ":":
        return False
    if silent:
        return True
    label = found.group(1).casefold()
    state.env.setdefault("footnotes", set()).add(label)
    state.env["longest"] = max(state.env.get("longest", 0), len(label))
    state.push("footnote_open", "", 1).meta["footnote"] = label
    _read_footnote(state, start, end, found.end() + 1)
    begun = state.src[found.end() + 1 : state.eMarks[start]].strip() != ""
    if begun and _ends_in_definition(state, end):
        _pass_over(state, state.line, _blank_line(state, state.line, end))
    state.push("footnote_close", "", -1)
    return True


def _ends_in_definition(state: StateBlock, end: int) -> bool:
    """To GitHub a definition is a paragraph's beginning, which goes on in the line below it."""
    if state.line >= end or state.isEmpty(state.line) or state.isEmpty(state.line - 1):
        return False
    last = next(token for token in reversed(state.tokens) if token.map or "footnote" in token.meta)
    return last.map is None or last.map[1] < state.line


def _read_footnote(state: StateBlock, start: int, end: int, text: int) -> None:
    kept = (state.bMarks[start], state.tShift[start], state.sCount[start], state.parentType)
    blanks = len(state.src[text : state.eMarks[start]]) - len(
        state.src[text : state.eMarks[start]].lstrip(" \t")
    )
    state.bMarks[start], state.tShift[start] = text, blanks
    state.sCount[start] = state.blkIndent + 4
    state.parentType = "footnote"
    state.blkIndent += 4
    state.md.block.tokenize(state, start, end)
    state.blkIndent -= 4
    state.bMarks[start], state.tShift[start], state.sCount[start], state.parentType = kept


def _footnote_ref(state: StateInline, silent: bool) -> bool:
    """Read `[^label]` where there is such a footnote; no further than the longest label is."""
    labels = state.env.get("footnotes", ())
    if not labels or not state.src.startswith("[^", state.pos) or _in_bare_link(state):
        return False
    limit = state.pos + 3 + state.env["longest"]
    end = state.src.find("]", state.pos, min(state.posMax, limit))
    label = state.src[state.pos + 2 : end].casefold()
    if end < 0 or label not in labels:
        return False
    if not silent:
        state.push("footnote_ref", "", 0).meta["footnote"] = label
    state.pos = end + 1
    return True


def _in_bare_link(state: StateInline) -> bool:
    """Return whether the word so far may be an address; of a very long one nobody looks."""
    before = state.src[max(0, state.pos - _LOOK_BACK) : state.pos]
    whole = len(before) < _LOOK_BACK or re.search(r"[\s<]", before) is not None
    return not whole or _BARE_LINK.search(before) is not None

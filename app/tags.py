"""HTML as a reader of the page sees it: text, and of the tags only their bare names. Pure.

It is cut up as a browser does it (WHATWG HTML, "Tokenization"), not as CommonMark does: GitHub
passes the source of a block on as it is, and what a browser takes for a comment or for an attribute
shows nothing. Linear in the length of what is read.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from dataclasses import dataclass

# What GitHub's sanitizer lets through.
# https://github.com/gjtorikian/html-pipeline, `SanitizationFilter::ALLOWLIST`
KEPT = frozenset(
    """
    h1 h2 h3 h4 h5 h6 br b i strong em a pre code img tt div ins del sup sub p picture ol ul table
    thead tbody tfoot blockquote dl dt dd kbd q samp var hr ruby rt li tr td th s strike summary
    details caption figure figcaption abbr bdo cite dfn mark small span time wbr
    """.split()  # noqa: SIM905 - a list of sixty is not read more easily
)
# What an element like these holds is not shown; of others that GitHub does not know (`select`,
# `object`, ...) the sanitizer takes away the tags and leaves the words.
UNSHOWN = frozenset(
    """
    script style template noscript rp video audio svg math datalist iframe noembed noframes xmp
    plaintext title textarea frameset
    """.split()  # noqa: SIM905 - as above
)
# An end tag does not reach beyond one of these ("special" in WHATWG HTML, "The stack of open
# elements", with the scopes' markers), and that of a paragraph not out of one.
SPECIAL = frozenset(
    """
    address applet article aside blockquote body button caption center colgroup dd details dialog
    dir div dl dt fieldset figcaption figure footer form frameset h1 h2 h3 h4 h5 h6 head header
    hgroup html iframe li listing main marquee menu nav noembed noframes noscript object ol
    optgroup option p plaintext pre script search section select style summary table tbody td
    template textarea tfoot th thead title tr ul xmp
    mi mo mn ms mtext annotation-xml foreignobject desc
    """.split()  # noqa: SIM905 - as above
)
# GFM's "disallowed raw HTML": the tag stands on the page as text.
_FILTERED = re.compile(
    r"</?(?:title|textarea|style|xmp|iframe|noembed|noframes|script|plaintext)(?=\s|/?>)",
    re.IGNORECASE,
)
_NAME = re.compile(r"</?([A-Za-z][^\s/>]*)")
_ATTRIBUTE = re.compile(
    r"""[\s/]*+(?P<name>[^\s/>][^\s/>=]*+)(?:\s*+=\s*+(?:"(?P<double>[^"]*+)"|'(?P<single>[^']*+)'"""
    r"""|(?P<open>["'])|(?P<bare>[^\s>"'][^\s>]*+)))?+"""
)
_TAG_END = re.compile(r"[\s/]*+>")
_COMMENT = re.compile(r"<!--(?:-?>|.*?--!?>)", re.DOTALL)
# Readers of before HTML 5 see its end where this is.
_LATER_END = re.compile(r"<!--.*?-->", re.DOTALL)
_BOGUS = re.compile(r"<(?:[!?]|/(?![A-Za-z]))[^>]*+>")
_ADDRESSES = {"img": "src", "a": "href"}


@dataclass(frozen=True)
class Text:
    """Words that are shown, with their entities replaced."""

    text: str


@dataclass(frozen=True)
class Tag:
    """`address` is that of a link or an image; `attributes` says that there were others."""

    name: str
    closing: bool = False
    address: str = ""
    attributes: bool = False


@dataclass(frozen=True)
class Comment:
    """What a browser takes for a comment, however it is written."""


@dataclass(frozen=True)
class Rest:
    """A tag or comment that does not end in this source: it takes in what follows."""

    source: str


Piece = Text | Tag | Comment | Rest


def read_html(source: str) -> Iterator[Piece]:
    """Cut HTML into what it is made of; a `Rest` is the last piece."""
    at = 0
    while at < len(source):
        less = source.find("<", at)
        end = len(source) if less < 0 else less
        if end > at:
            yield Text(html.unescape(source[at:end]))
        if less < 0:
            return
        piece, at = _read_markup(source, less)
        yield piece


def _read_markup(source: str, at: int) -> tuple[Piece, int]:
    following = source[at + 1 : at + 2]
    if not following or not ((following.isascii() and following.isalpha()) or following in "!?/"):
        return Text("<"), at + 1
    if _FILTERED.match(source, at):
        return Text("<"), at + 1
    if source.startswith("<!--", at):
        return _read_comment(source, at)
    if following in "!?" or not _NAME.match(source, at):
        bogus = _BOGUS.match(source, at)
        return (Comment(), bogus.end()) if bogus else (Rest(source[at:]), len(source))
    return _read_tag(source, at)


def _read_comment(source: str, at: int) -> tuple[Piece, int]:
    """Where two readers see two ends, what is between may be tags: then there is none."""
    found, later = _COMMENT.match(source, at), _LATER_END.match(source, at)
    if found is None or (later is not None and later.end() != found.end()):
        return Rest(source[at:]), len(source)
    return Comment(), found.end()


def _read_tag(source: str, start: int) -> tuple[Piece, int]:
    named = _NAME.match(source, start)
    if named is None:
        raise AssertionError("a tag was expected")
    name, at = named.group(1).lower(), named.end()
    wanted, address, others = _ADDRESSES.get(name), "", False
    while not (end := _TAG_END.match(source, at)):
        found = _ATTRIBUTE.match(source, at)
        if found is None or found["open"]:
            return Rest(source[start:]), len(source)
        if found["name"].lower() == wanted and not address:
            address = html.unescape(found["double"] or found["single"] or found["bare"] or "")
        else:
            others = True
        at = found.end()
    return Tag(name, source[start + 1] == "/", address, others), end.end()

"""What is shown of the inside of a paragraph, and of a block of HTML. Pure.

Both are read by one `Spans` for a whole page, since HTML that begins in one may end in another.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import quote

from markdown_it.token import Token

from app.tags import KEPT, SPECIAL, UNSHOWN, Rest, Tag, Text, read_html
from app.tex import is_drawn
from app.text import strip_invisible

ADDRESS_LIMIT = 500
_PASSES = 5
# The first stands where something was left out, the second on both sides of code. Those of the
# source are replaced before it is read, those of its entities afterwards.
_CUT, _CODE = "\ue000", "\ue001"
_UNMARK = dict.fromkeys(map(ord, (_CUT, _CODE)))
UNFORGED = dict.fromkeys(map(ord, (_CUT, _CODE)), "\ufffd")
# What stood apart before something was left out between must not become a comment's beginning.
_JOINED = re.compile(rf"<(?:{_CUT}+!|!{_CUT}+-|!-{_CUT}+-)[{_CUT}-]*.*?(?:-->|\Z)", re.DOTALL)
# Comments that end at once, or with the next `-->`, depending on who reads them.
_ODD_COMMENTS = frozenset({"<!-->", "<!--->"})
# A declaration (with a small letter only since CommonMark 0.30), instruction or CDATA that holds
# what may be a tag: browsers end it at the first `>`.
_ODD_MARKUP = re.compile(r"<(?:![A-Za-z\[]|\?)[^<]*<")
_MAY_HIDE = re.compile(rf"<(?:[!?]|(?:{'|'.join(sorted(UNSHOWN))})(?![\w-]))", re.IGNORECASE)
# They have no end tag, but end a paragraph.
_PARTING = SPECIAL | {"hr"}
_HOLDING = SPECIAL | UNSHOWN
_FORMULA = re.compile(
    rf"\$\$[^${_CODE}]+\$\$"
    rf"|(?<![\w$])\$(?=[^\s$])[^${_CODE}]*(?<!\s)\$(?![\w$])"
    rf"|(?<![\w$])\${_CODE}[^{_CODE}]*{_CODE}\$(?![\w$])"
)


@dataclass
class Spans:
    """Reads inline tokens and HTML in the order of the page, and counts what is not shown.

    `footnotes` are the numbers that the page gives to footnotes.
    """

    footnotes: Mapping[str, int]
    comments: int = 0
    hidden: int = 0
    _hiding: _Hiding | None = None
    _shielded: bool = False
    _held: bool = False
    _out: list[str] = field(default_factory=list)
    _links: list[tuple[int, str]] = field(default_factory=list)
    _anchor: tuple[int, str] | None = None

    def of_tokens(self, children: Sequence[Token], item: int = 0) -> str:
        """Return what a paragraph, heading or cell shows.

        `item` is the depth of the list's item that this is the tight text of: it is written without
        an element of its own.
        """
        self._begin()
        self._shielded = self._held
        for child in children:
            _READ.get(child.type, Spans._other)(self, child)
        shown = self._end()
        if self._hiding is not None and self._hiding.inline:
            self._hiding.inline = False
            self._hiding.item = 0 if self._shielded else item
            self._hiding = self._hiding if self._shielded or item else None
        return shown

    def of_html(self, source: str) -> str:
        """Return what a block of HTML shows."""
        self._begin()
        if self._hiding and not self._hiding.name:
            return ""
        self._html(source, inline=False)
        return self._end()

    def of_code(self, content: str) -> str:
        """Return the content of a code block."""
        self._begin()
        return "" if self._hiding else content

    def pass_over(self, source: str) -> None:
        """Hide what follows for good if something in a part that was not read may hide it."""
        if _MAY_HIDE.search(source) or any(isinstance(p, Rest) for p in read_html(source)):
            self._hiding = _Hiding("", inline=False)

    def end_item(self, depth: int) -> None:
        """A list's item at this depth ends, and with it what began in its tight text."""
        if self._hiding is not None and self._hiding.item == depth:
            self._hiding = None

    def _begin(self) -> None:
        self._out, self._links, self._anchor = [], [], None

    def _end(self) -> str:
        return self._drop_formulas(self._drop_joined("".join(self._out))).translate(_UNMARK)

    def _say(self, text: str) -> None:
        if not self._hiding:
            self._out.append(text)

    def _cut(self) -> None:
        self.hidden += 1
        self._out.append(_CUT)

    # --- inline tokens ---

    def _text(self, token: Token) -> None:
        self._say(token.content.translate(UNFORGED))

    def _other(self, token: Token) -> None:
        """Emphasis is written as it was; nothing else that has a markup shows anything."""
        self._say(token.markup if token.nesting else token.content.translate(UNFORGED))

    def _code(self, token: Token) -> None:
        ticks, content = token.markup, token.content.translate(UNFORGED)
        pad = " " if content.startswith("`") or content.endswith("`") else ""
        self._say(f"{_CODE}{ticks}{pad}{content}{pad}{ticks}{_CODE}")

    def _break(self, token: Token) -> None:
        self._say("  \n" if token.type == "hardbreak" else "\n")

    def _image(self, token: Token) -> None:
        self.hidden += "title" in token.attrs
        self._say(_picture(self._address(str(token.attrs.get("src", "")))))

    def _open_link(self, token: Token) -> None:
        self.hidden += "title" in token.attrs
        written = token.markup == "autolink"
        self._links.append((len(self._out), "" if written else str(token.attrs.get("href", ""))))

    def _close_link(self, token: Token) -> None:
        start, href = self._links.pop()
        words = "".join(self._out[start:])
        if _is_blank(words):
            del self._out[start:]
            self._cut()
        elif href:
            self._out[start:] = [f"[{words}]({self._address(href)})"]

    def _footnote(self, token: Token) -> None:
        number = self.footnotes.get(token.meta["footnote"])
        self._say(f"[^{number}]" if number else "")

    def _inline_html(self, token: Token) -> None:
        if _ODD_MARKUP.match(token.content):
            self._unended(Rest(token.content))
            return
        self._html(token.content, inline=True)
        if token.content in _ODD_COMMENTS:
            self._say(f"<{_CUT}!--")

    # --- HTML ---

    def _html(self, source: str, *, inline: bool) -> None:
        for piece in read_html(source):
            if isinstance(piece, Text):
                self._say(piece.text.translate(UNFORGED))
            elif isinstance(piece, Tag):
                self._tag(piece, inline=inline)
            elif isinstance(piece, Rest):
                self._unended(piece)
            elif not self._hiding:
                self.comments += 1
                self._out.append(_CUT)

    def _unended(self, piece: Rest) -> None:
        """Its end may be a tag that GitHub writes, or nothing: what follows is left out."""
        comment = piece.source.startswith("<!")
        self.comments += comment
        self.hidden += not comment
        self._hiding = _Hiding("", inline=False)

    def _tag(self, tag: Tag, *, inline: bool) -> None:
        self._shielded |= tag.name in _PARTING
        # Within it browsers leave out tags, also those of the paragraphs that follow.
        self._held |= tag.name == "select"
        if self._hiding:
            self._hiding = self._hiding.after(tag)
        elif tag.name in UNSHOWN:
            self._cut()
            self._hiding = None if tag.closing else _Hiding(tag.name, inline=inline)
        elif tag.name not in KEPT:
            self._cut()
        else:
            self.hidden += tag.attributes
            self._shown_tag(tag)

    def _shown_tag(self, tag: Tag) -> None:
        if tag.name == "img":
            self._say("" if tag.closing else _picture(self._address(tag.address)))
        elif tag.name == "a":
            self._anchor_tag(tag)
        else:
            self._say(f"</{tag.name}>" if tag.closing else f"<{tag.name}>")

    def _anchor_tag(self, tag: Tag) -> None:
        """A link is written where it ends; one that begins in another ends that."""
        opened, self._anchor = self._anchor, None
        if opened is not None:
            self._write_anchor(*opened)
        if not tag.closing:
            self._anchor = (len(self._out), tag.address)
            self._out.append("")

    def _write_anchor(self, start: int, address: str) -> None:
        if _is_blank("".join(self._out[start:])):
            self.hidden += bool(address)
        elif address:
            self._out[start] = f'<a href="{self._address(address)}">'
            self._out.append("</a>")

    def _address(self, address: str) -> str:
        """Return an address as one word of bounded length."""
        word = quote(strip_invisible(address)[0].strip(), safe="!#$%&*+,-./:;=?@_~[]")
        self.hidden += len(word) > ADDRESS_LIMIT
        return word if len(word) <= ADDRESS_LIMIT else word[:ADDRESS_LIMIT] + "…"

    # --- what only the whole shows ---

    def _drop_joined(self, text: str) -> str:
        """Leaving one out can join another, so this goes on until there is none."""
        for _ in range(_PASSES):
            text, count = _JOINED.subn(_CUT, text)
            self.comments += count
            if not count:
                return text
        # Nested to hide something: shown rather than chased further.
        return text.translate(_UNMARK).replace("<!", "<\\!")

    def _drop_formulas(self, text: str) -> str:
        return _FORMULA.sub(self._formula, text) if "$" in text else text

    def _formula(self, found: re.Match[str]) -> str:
        # What was left out may have joined two halves of a command.
        if _CUT not in found.group() and is_drawn(found.group()):
            return found.group()
        self.hidden += 1
        return "(formula)"


@dataclass
class _Hiding:
    """Nothing is shown until the element `name` ends; never more if it has no name.

    `inline` is what began within a paragraph and ends with it, or with the list's item at the depth
    `item`, unless something within the paragraph keeps that end from being seen. `open` are the
    special and the hidden elements within: as long as one is open, the end tag does not count.
    """

    name: str
    inline: bool
    depth: int = 1
    item: int = 0
    open: list[str] = field(default_factory=list)

    def after(self, tag: Tag) -> _Hiding | None:
        if tag.closing and self.open:
            if tag.name == self.open[-1]:
                self.open.pop()
        elif tag.name == self.name:
            self.depth += -1 if tag.closing else 1
        elif tag.name in _HOLDING and not tag.closing:
            self.open.append(tag.name)
        return self if self.depth else None


def _picture(address: str) -> str:
    return f"(image: {address})" if address else "(image)"


def _is_blank(text: str) -> bool:
    return not re.sub(r"<[^<>]*>", "", strip_invisible(text)[0]).strip()


_READ: Mapping[str, Callable[[Spans, Token], None]] = {
    "text": Spans._text,
    "code_inline": Spans._code,
    "softbreak": Spans._break,
    "hardbreak": Spans._break,
    "image": Spans._image,
    "link_open": Spans._open_link,
    "link_close": Spans._close_link,
    "footnote_ref": Spans._footnote,
    "html_inline": Spans._inline_html,
}

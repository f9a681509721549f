"""Markdown as the pages show it: HTML is shown as text, comments are hidden.

A few harmless tags without attributes (`<details>` and its like) keep their meaning, as they do
on GitHub.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.token import Token
from markupsafe import Markup

_COMMENT = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)
_HARMLESS = re.compile(r"&lt;(/?(?:details|summary|br|sub|sup|kbd|b|i|em|strong)|br ?/)&gt;")
_TASK = re.compile(r"<li>(\s*<p>)?\[([ xX])\] ")
_ISSUE = re.compile(r"(?<![\w&/])#(\d+)\b")
_MENTION = re.compile(r"(?<![\w/])@([a-zA-Z0-9][a-zA-Z0-9-]*)")


def render(text: str | None, repo_path: str) -> Markup:
    """Return safe HTML. `repo_path` (`/owner/name`) is where `#12` leads."""
    html = _markdown().render(text or "", {"repo": repo_path})
    return Markup(_TASK.sub(_checkbox, html))  # noqa: S704  (every text in it was escaped above)


def _markdown() -> MarkdownIt:
    """HTML is parsed, so that comments are found where they are comments, and then escaped."""
    markdown = MarkdownIt("commonmark", {"html": True, "breaks": True})
    markdown.enable(["table", "strikethrough"])
    markdown.add_render_rule("html_block", _html)
    markdown.add_render_rule("html_inline", _html)
    markdown.add_render_rule("text", _text)
    return markdown


def _html(_self: Any, tokens: Sequence[Token], index: int, _options: Any, _env: Any) -> str:
    shown = escape(_COMMENT.sub("", tokens[index].content))
    return _HARMLESS.sub(r"<\1>", shown)


def _text(_self: Any, tokens: Sequence[Token], index: int, _options: Any, env: Any) -> str:
    shown = escape(tokens[index].content)
    if _inside_link(tokens, index):
        return shown
    shown = _ISSUE.sub(rf'<a href="{escape(env["repo"])}/issues/\1">#\1</a>', shown)
    return _MENTION.sub(r'<a class="mention" href="/\1">@\1</a>', shown)


def _inside_link(tokens: Sequence[Token], index: int) -> bool:
    depth = 0
    for token in tokens[:index]:
        depth += token.nesting if token.type in ("link_open", "link_close") else 0
    return depth > 0


def _checkbox(match: re.Match[str]) -> str:
    ticked = "" if match[2] == " " else " checked"
    return f'<li class="task">{match[1] or ""}<input type="checkbox" disabled{ticked}> '

"""Writes what in docs/ follows from the code: settings, commands, the repository config with its
JSON Schema, the states' diagram.

    python -m cli.docs

A test holds what is committed against what this would write.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import click
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from app.config_schema import json_schema, key_rows
from app.messages import COMMAND_HELP, OPTION_HELP
from app.settings import SECRET_FIELDS, Settings, variable
from app.states import mermaid
from cli.main import drydock

DOCS = Path(__file__).parents[1] / "docs"
_WIDTH = 88
_STATES = re.compile(
    r"(<!-- states: written by cli\.docs -->\n).*?(<!-- states: end -->)", re.DOTALL
)
_COMPUTED = {"state_dir": "the platform's user state directory"}

_SETTINGS_HEAD = """\
# Settings

<!-- Written by `python -m cli.docs` from app/settings/values.py. -->

Each setting is an environment variable, and also a key of `drydock.toml` (the same name in lower
case without `DRYDOCK_`). The file is the one that `--config` or `DRYDOCK_CONFIG` names, else
`drydock.toml` in the working folder. The environment wins. A list is written `a, b` in the
environment. Where the table says *secret*, the same name with `_FILE` behind it reads the value
from a file. An unknown key is refused, and so is a value that does not fit: every problem is named
at the start.

| variable | default | meaning |
|---|---|---|
"""
_COMMANDS_HEAD = """\
# Commands

<!-- Written by `python -m cli.docs` from app/messages/ and cli/. -->

## On GitHub

A line of a comment that begins with one of these; in quotes, code and lists they are not followed.

"""


_CONFIG_HEAD = """\
# Repository config

<!-- Written by `python -m cli.docs` from app/repo_config.py. -->

A repository says in `.github/drydock.yml` how runs on it are done. The file is read from the
default branch only, so a pull request changes nothing before it is merged, and no run may change
the file. Without one, every key has its default, and a test command is found from the repository
(pytest, unittest, `npm test`, `go test`, `cargo test`, `make test`); the pull request says which.

A repository narrows what the operator allows and never widens it. An unknown key, a wrong value and
a wish beyond the operator's limits are refused with their line and the nearest right word, as a
comment on the issue; no run is started then. Before merging, `drydock config check
.github/drydock.yml` says the same, and with `--config drydock.toml` holds it against the operator's
limits too. Editors know the keys from [drydock.schema.json](drydock.schema.json): a first line
`# yaml-language-server: $schema=URL-OR-PATH` tells them where it is.

| key | default | for example | meaning |
|---|---|---|---|
"""
_CONFIG_TAIL = """
## What follows from some of them

- `label`: the operator's own label starts nothing in this repository any more.
- `allow`: a permission is GitHub's answer about whoever acted, never about the issue's author. The
  members of a team need the operator's least permission as well, and the App needs the organization
  permission *Members: read* to ask who they are. Below the operator's least permission a repository
  gets only where the operator sets `DRYDOCK_ALLOW_TRIAGE`, and then to `triage`.
- `include_comments: all` lets the model read what anybody wrote on the issue. Bots' comments,
  commands, and what was written or edited after the command stay out.
- `files` and `instructions`: what is not there is said in the pull request, for `files`, and ends
  the run, for `instructions`.
- `ttl`, `budget_usd`, `model`, `template`, `attempts`: at most, or one of, what the operator has.
- `on_failing_tests: none`: the branch is not pushed either; the status comment shows the end of the
  tests' output. Only Drydock's own run of the tests counts.
- `reviewers`: teams need *Members: read* too. Somebody whom GitHub refuses is named in the pull
  request, which is there all the same.
"""


def config_page() -> str:
    """Return every key of the repository config in the order of the code."""
    rows = (
        f"| `{name}` | {_code(default)} | `{_cell(example)}` | {_cell(words)} |\n"
        for name, default, example, words in key_rows()
    )
    return _CONFIG_HEAD + "".join(rows) + _CONFIG_TAIL


def _code(text: str) -> str:
    return text if text == "none" else f"`{_cell(text)}`"


def config_schema() -> str:
    """Return the JSON Schema of the repository config."""
    return json.dumps(json_schema(), indent=2) + "\n"


def settings_page() -> str:
    """Return every setting in the order of the code."""
    rows = (_setting(name, field) for name, field in Settings.model_fields.items())
    return _SETTINGS_HEAD + "".join(rows)


def _setting(name: str, field: FieldInfo) -> str:
    secret = " *Secret.*" if name in SECRET_FIELDS else ""
    words = f"{field.description or ''}{secret}"
    return f"| `{variable(name)}` | {_default(name, field)} | {_cell(words)} |\n"


def _default(name: str, field: FieldInfo) -> str:
    if name in _COMPUTED:
        return _COMPUTED[name]
    value = field.default
    if value is None or value is PydanticUndefined or value == ():
        return "none"
    return f"`{_cell(_written(value))}`"


def _written(value: Any) -> str:
    """Return a default as it would be written in the environment."""
    if isinstance(value, tuple):
        return ", ".join(_written_item(each) for each in value)
    return str(value).lower() if isinstance(value, bool) else f"{value}"


def _written_item(value: Any) -> str:
    return ":".join(reversed(value)) if isinstance(value, tuple) else str(value)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


_COMMANDS_RULES = """
How a command is read:

- It begins a line of ordinary text, in a comment or a review. What follows it, up to the next
  command or the end of the comment, is its text.
- A subcommand stands alone on its line, politeness apart (`/aider stop, please`). Else the whole is
  a wish: `/aider stop using globals` starts a run.
- `allow` takes one path as the refusal shows it, in quotes where it has spaces. Words behind or
  below it are answered, and nothing is let through. `/aider allow users to log in` is a wish, since
  `users` is no path by its look.
- Invisible characters at the ends of a command's words, as they come along when text is copied, are
  ignored. Inside of a subcommand they are answered.
- Whatever is not understood (an unknown option, a slip such as `/aider stpo`) is answered with the
  nearest right spelling, and starts nothing. At most ten commands of one comment are followed.

Without a command:

- The label, or assigning the bot, starts a run for an issue. Taking the label off, closing or
  merging ends it.
- A review that requests changes on a pull request of Drydock's is one run, inline comments
  included.
- A check of another service that fails on the head of a pull request of Drydock's starts a run
  where the repository's `fix_ci` is on: one for each head, and at most `fix_ci_rounds` in a row. A
  person's command or push starts that count anew.
- Where the App is uninstalled, suspended or taken off a repository, its runs there end. How they
  ended is told on their issues once it is back.

The operator's brakes (`DRYDOCK_MAX_ROUNDS`, `DRYDOCK_MAX_RUNS_REPO_HOUR`,
`DRYDOCK_MAX_RUNS_USER_HOUR`, `DRYDOCK_MAX_OPEN_PULLS` in [settings.md](settings.md)) hold whatever
would begin one more run, and `/aider force` does not lift them. That is said once an hour on an
issue; whatever else they hold there is answered with 😕 alone.

"""


def commands_page() -> str:
    """Return what people type, on GitHub and in a shell."""
    github = "".join(_rows("comment", COMMAND_HELP)) + "\n" + "".join(_rows("option", OPTION_HELP))
    shell = "\n".join(_help(context) for context in _walk("drydock", drydock, None))
    return f"{_COMMANDS_HEAD}{github}{_COMMANDS_RULES}## In a shell\n\n{shell}"


def _rows(head: str, rows: tuple[tuple[str, str], ...]) -> Iterator[str]:
    yield f"| {head} | what it does |\n|---|---|\n"
    for name, words in rows:
        yield f"| `{_cell(name)}` | {_cell(words)} |\n"


def _walk(
    name: str, command: click.Command, parent: click.Context | None
) -> Iterator[click.Context]:
    context = click.Context(
        command,
        parent,
        info_name=name,
        terminal_width=_WIDTH,
        max_content_width=_WIDTH,
        **command.context_settings,
    )
    yield context
    if isinstance(command, click.Group):
        for below in command.list_commands(context):
            found = command.get_command(context, below)
            if found is not None:
                yield from _walk(below, found, context)


def _help(context: click.Context) -> str:
    words = context.command.get_help(context)
    return f"### `{context.command_path}`\n\n```text\n{words}\n```\n"


def design_page() -> str:
    """Return the design with the present diagram of the states between its marks.

    ValueError when the page has no such marks.
    """
    text = (DOCS / "design.md").read_text(encoding="utf-8")
    if _STATES.search(text) is None:
        raise ValueError("docs/design.md has no place for the states' diagram")
    drawing = f"```mermaid\n{mermaid()}```\n"
    return _STATES.sub(lambda found: f"{found[1]}{drawing}{found[2]}", text)


PAGES: Mapping[str, Callable[[], str]] = {
    "settings.md": settings_page,
    "commands.md": commands_page,
    "config.md": config_page,
    "drydock.schema.json": config_schema,
    "design.md": design_page,
}


def main() -> None:
    for name, page in PAGES.items():
        (DOCS / name).write_text(page(), encoding="utf-8")
        click.echo(f"docs/{name}")


if __name__ == "__main__":
    main()

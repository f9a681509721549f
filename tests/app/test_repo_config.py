from __future__ import annotations

from collections.abc import Mapping

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from app.repo_config import (
    MAX_BYTES,
    ConfigError,
    RepoConfig,
    parse_leniently,
    parse_repo_config,
    problems_of,
)


def good(text: str) -> RepoConfig:
    found = parse_repo_config(text.encode())
    assert isinstance(found, RepoConfig), found
    return found


def bad(data: str | bytes) -> ConfigError:
    found = parse_repo_config(data.encode() if isinstance(data, str) else data)
    assert isinstance(found, ConfigError), found
    return found


@pytest.mark.parametrize("data", [None, b"", b"# nothing\n", b"---\n", b"\xef\xbb\xbf"])
def test_no_file_and_an_empty_one_give_the_defaults(data: bytes | None) -> None:
    assert parse_repo_config(data) == RepoConfig.model_validate({})


EVERY_KEY = """\
label: robot
allow: acme/maintainers
include_comments: all
model: openai/gpt-4.1
base: dev
template: node
setup: [a, b]
test: make test
lint: ruff check
instructions: docs/style.md
files: [src/api.py, docs/*.md]
protected_paths: {migrations/**: warn}
egress: {registries: [pip], hosts: []}
attempts: 3
ttl: 1h30m
budget_usd: 2
draft: false
signed_commits: true
suggest_reviewers: true
on_failing_tests: none
reviewers: [mona, acme/backend]
labels: bot
fix_ci: true
fix_ci_rounds: 2
"""


def test_every_key_is_read() -> None:
    config = good(EVERY_KEY)
    assert set(RepoConfig.model_fields) == config.model_fields_set
    assert config.model_dump() == {
        "label": "robot",
        "allow": "acme/maintainers",
        "include_comments": "all",
        "model": "openai/gpt-4.1",
        "base": "dev",
        "template": "node",
        "setup": ("a", "b"),
        "test": "make test",
        "lint": "ruff check",
        "instructions": "docs/style.md",
        "files": ("src/api.py", "docs/*.md"),
        "protected_paths": (("migrations/**", "warn"),),
        "egress": {"registries": ("pip",), "hosts": ()},
        "attempts": 3,
        "ttl": 5400.0,
        "budget_usd": 2.0,
        "draft": False,
        "signed_commits": True,
        "suggest_reviewers": True,
        "on_failing_tests": "none",
        "reviewers": ("mona", "acme/backend"),
        "labels": ("bot",),
        "fix_ci": True,
        "fix_ci_rounds": 2,
    }


@pytest.mark.parametrize(
    ("written", "seconds"),
    [("45", 2700), ("0.5", 30), ("45m", 2700), ("1h", 3600), ("1h30m", 5400), ("90s", 90)],
)
def test_a_time_is_minutes_or_says_its_units(written: str, seconds: float) -> None:
    assert good(f"ttl: {written}\n").ttl == seconds


def test_one_setup_command_needs_no_list() -> None:
    assert good("setup: npm ci").setup == ("npm ci",)


def test_a_command_may_have_several_lines() -> None:
    assert good("test: |\n  a\n  b\n").test == "a\nb"


@pytest.mark.parametrize(
    ("text", "line", "words", "nearest"),
    [
        ("base: x\ntset: y\n", 2, "unknown key tset", "test"),
        ("Test: y\n", 1, "unknown key Test", "test"),
        ("zzzzz: y\n", 1, "unknown key zzzzz", None),
        ("test: a\ntest: b\n", 2, "the key test is already in line 1", None),
        ("base: main\n\ndraft: 'yes'\n", 3, "draft must be true, false or auto", None),
        ("test: 5\n", 1, "test must be text", None),
        ("test: yes\n", 1, "test must be text", None),
        ("test: ''\n", 1, "test must not be empty", None),
        ("test:\n  a: b\n", 1, "test must be text", None),
        ("setup: {a: b}\n", 1, "setup must be a command or a list of commands", None),
        ("setup: [1]\n", 1, "setup must be text", None),
        ("base: 'a..b'\n", 1, "base is not a name that git takes", None),
        ("- a\n- b\n", 1, "list of `key: value`", None),
        ("just text", 1, "list of `key: value`", None),
        ("test: &a x\nlint: *a\n", 2, "aliases", None),
        ("test: [\n", 2, "not valid YAML", None),
        ("a: b\n---\nc: d\n", 2, "not valid YAML", None),
        ("test: !!python/object/apply:os.system [x]\n", 1, "not valid YAML", None),
        ("test: \x07\n", None, "not valid YAML", None),
        (
            "reviewers: '{x}'\n",
            1,
            "must hold logins and teams (org/team), which '{x}' is not",
            None,
        ),
        ("draft: automatic\n", 1, "draft must be true, false or auto", None),
        ("draft: 2024-99-99\n", None, "not valid YAML", None),
    ],
)
def test_a_wrong_file_is_refused_with_line_and_nearest_key(
    text: str, line: int | None, words: str, nearest: str | None
) -> None:
    error = bad(text)
    assert words in error.reason
    assert (error.line, error.nearest) == (line, nearest)


def test_a_file_that_is_too_large_too_deep_or_no_text_is_refused() -> None:
    assert "larger than 64 KiB" in bad(b"#" * (MAX_BYTES + 1)).reason
    assert "nested too deeply" in bad("test: " + "[" * 5000).reason
    assert "not UTF-8" in bad(b"\xff\xfe").reason


def test_a_bomb_of_aliases_is_refused_at_once() -> None:
    lines = ["a: &a [x,x,x,x,x,x,x,x,x]"]
    lines += [
        f"{b}: &{b} [*{a},*{a},*{a},*{a}]" for a, b in zip("abcdefgh", "bcdefghi", strict=True)
    ]
    assert "aliases" in bad("\n".join(lines)).reason


@pytest.mark.parametrize(
    ("text", "line", "words", "nearest"),
    [
        ("allow: writ\n", 1, "allow must be triage, write, maintain, admin or a team", "write"),
        ("allow: read\n", 1, "allow must be triage, write", None),
        ("allow: a/b/c\n", 1, "or a team (org/team)", None),
        ("allow: a/..\n", 1, "or a team (org/team)", None),
        ("include_comments: everyone\n", 1, "include_comments must be 'trusted' or 'all'", None),
        ("include_comments: al\n", 1, "include_comments must be 'trusted' or 'all'", "all"),
        ("on_failing_tests: drafts\n", 1, "must be 'draft' or 'none'", "draft"),
        ("instructions: ../up\n", 1, "must be a path from the repository's root", None),
        ("instructions: /etc/passwd\n", 1, "must be a path from the repository's root", None),
        ("files:\n- a\n- /b\n", 3, "files must hold paths or globs", None),
        ("attempts: 0\n", 1, "attempts must be 1 or more", None),
        ("attempts: 1.5\n", 1, "attempts must be a whole number", None),
        ("attempts: yes\n", 1, "attempts must be a whole number", None),
        ("ttl: 1 hour\n", 1, "ttl must be minutes, or a time such as 45m", None),
        ("ttl: true\n", 1, "ttl must be minutes, or a time such as 45m", None),
        ("ttl: 0\n", 1, "ttl must be more than 0", None),
        ("ttl: 25h\n", 1, "ttl must be a day or less", None),
        ("ttl: .nan\n", 1, "ttl must be a number", None),
        ("budget_usd: 0\n", 1, "budget_usd must be more than 0", None),
        ("budget_usd: .inf\n", 1, "budget_usd must be a number", None),
        ("budget_usd: '5'\n", 1, "budget_usd must be a number", None),
        ("reviewers:\n  - mona\n  - '@bob'\n", 3, "which '@bob' is not", None),
        ("reviewers: {a: b}\n", 1, "reviewers must be a text or a list of texts", None),
        ("labels:\n- a\n- ''\n", 3, "labels must not be empty", None),
        ("label: |\n  a\n  b\n", 1, "label must be one line of text", None),
        ("fix_ci: 1\n", 1, "fix_ci must be true or false", None),
        ("fix_ci_rounds: 99\n", 1, "fix_ci_rounds must be 10 or less", None),
        ("protected_paths:\n  a: warn\n  b: refus\n", 3, "refuse, warn or allow", "refuse"),
        ("egress: {1: a}\n", 1, "must have keys that are text", None),
    ],
)
def test_a_wrong_value_is_named_with_its_line_and_the_nearest_right_one(
    text: str, line: int, words: str, nearest: str | None
) -> None:
    error = bad(text)
    assert words in error.reason
    assert (error.line, error.nearest) == (line, nearest)


def test_everything_that_is_wrong_is_told_in_the_files_order() -> None:
    found = problems_of(b"draft: maybe\ntset: make test\nttl: soon\n")
    assert [(each.line, each.nearest) for each in found] == [(1, None), (2, "test"), (3, None)]
    assert problems_of(EVERY_KEY.encode()) == ()


@pytest.mark.parametrize(
    ("text", "label", "allow"),
    [
        ("label: robot\nallow: admin\n", "robot", "admin"),
        ("label: robot\nallow: admin\ntset: x\n", "robot", "admin"),
        ("label: robot\nallow: everybody\n", "robot", None),
        ("label: [a]\nallow: admin\n", None, "admin"),
        ("label: robot\nlabel: other\n", None, None),
        ("- a\n", None, None),
    ],
)
def test_even_a_wrong_file_says_how_runs_start(
    text: str, label: str | None, allow: str | None
) -> None:
    found = parse_leniently(text.encode())
    assert (found.label, found.allow) == (label, allow)
    assert found.model_dump(exclude={"label", "allow"}) == RepoConfig.model_validate({}).model_dump(
        exclude={"label", "allow"}
    )


_SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20)
_VALUES = st.recursive(
    _SCALARS,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6) | st.integers(), inner)
    ),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from([*RepoConfig.model_fields, "tset"]), _VALUES, max_size=4))
def test_any_value_under_any_key_is_taken_or_explained_in_a_line(
    values: Mapping[str, object],
) -> None:
    data = yaml.safe_dump(values, allow_unicode=True, sort_keys=False).encode()
    lines = data.count(b"\n")
    for problem in problems_of(data):
        assert problem.reason
        assert problem.line is None or 1 <= problem.line <= lines


@given(st.binary(max_size=200))
def test_no_bytes_crash_the_parser(data: bytes) -> None:
    parse_repo_config(data)


@given(st.text(alphabet="abtes:-[]{}&*!|>'\"\n #%@`,?\t", max_size=60))
def test_no_yaml_crashes_the_parser(text: str) -> None:
    parse_repo_config(text.encode())


def test_egress_may_be_narrowed() -> None:
    config = parse_repo_config(b"egress:\n  registries: [pip]\n  hosts: []\n")
    assert isinstance(config, RepoConfig)
    assert config.egress is not None
    assert (config.egress.registries, config.egress.hosts) == (("pip",), ())


@pytest.mark.parametrize(
    ("text", "reason", "nearest"),
    [
        ("egress:\n  registry: [pip]\n", "unknown key registry in egress", "registries"),
        ("egress:\n  hosts: a.example\n", "egress: hosts must be a list of names", None),
        ("egress:\n  hosts: [5]\n", "egress: hosts must be a list of names", None),
        ("egress: all\n", "egress must be a list of `key: value`", None),
    ],
)
def test_wrong_egress_is_explained(text: str, reason: str, nearest: str | None) -> None:
    line = text.count("\n")
    assert parse_repo_config(text.encode()) == ConfigError(reason, line, nearest)


@pytest.mark.parametrize(
    "text",
    [
        "test: !!bool maybe",
        'test: !!int ""',
        'test: !!float ""',
        'test: !!int "-"',
        "test: !!timestamp foo",
        "protected_paths:\n  x/**: refuse\n  x/**: allow\n",
        "egress:\n  hosts: [a]\n  hosts: []\n",
        "egress:\n  <<: {hosts: [a]}\n",
    ],
)
def test_tags_that_do_not_fit_and_nested_duplicates_are_refused(text: str) -> None:
    assert isinstance(parse_repo_config(text.encode()), ConfigError)

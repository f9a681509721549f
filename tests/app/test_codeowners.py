"""Who owns a path, by the rules that GitHub documents."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.codeowners import MAX_RULES, owners_of, read_codeowners, read_pattern
from tests.effort import effort

# The example of GitHub's own page, in other words and with other names.
EXAMPLE = """\
# Whoever is named here owns everything that no later line fits.
*       @owner1 @owner2

*.js    @js-owner # an inline comment
*.go docs@example.com
*.txt @octo-org/writers
/build/logs/ @doctocat
docs/* docs@example.com
apps/ @octocat
/docs/ @doctocat
/scripts/ @doctocat @octocat
**/logs @logger
/apps/ @octocat
/apps/github
"""


@pytest.mark.parametrize(
    ("path", "owners"),
    [
        ("README.md", ("@owner1", "@owner2")),
        ("src/deep/x.js", ("@js-owner",)),
        ("x.go", ("docs@example.com",)),
        ("a/b.txt", ("@octo-org/writers",)),
        ("build/logs/a.log", ("@logger",)),
        ("docs/start.md", ("@doctocat",)),
        ("docs/build/trouble.md", ("@doctocat",)),
        ("x/apps/y", ("@octocat",)),
        ("apps/y", ("@octocat",)),
        ("apps/github", ()),
        ("apps/github/deep/x", ()),
        ("apps/githubber", ("@octocat",)),
        ("scripts/run", ("@doctocat", "@octocat")),
        ("deeply/nested/logs/x", ("@logger",)),
    ],
)
def test_the_last_line_that_fits_counts(path: str, owners: tuple[str, ...]) -> None:
    assert owners_of(read_codeowners(EXAMPLE), path) == owners


@pytest.mark.parametrize(
    ("pattern", "fitting", "others"),
    [
        ("*", ["a", "a/b/c"], []),
        ("/*", ["a"], ["a/b"]),
        ("docs/*", ["docs/a"], ["docs/a/b", "x/docs/a", "docs"]),
        ("docs/**", ["docs/a", "docs/a/b"], ["docs", "x/docs/a"]),
        ("**", ["a", "a/b"], []),
        ("/a/**/b", ["a/b", "a/x/b", "a/x/y/b", "a/x/b/below"], ["a/xb", "b", "x/a/b"]),
        ("**/b", ["b", "a/b", "a/x/b/c"], ["ab"]),
        ("apps/", ["apps/x", "x/apps/y/z"], ["apps", "apps2/x"]),
        ("/apps/", ["apps/x"], ["x/apps/y", "apps"]),
        ("/apps", ["apps", "apps/x"], ["x/apps", "apps2"]),
        ("*.py", ["a.py", "x/a.py", "x.py/inside"], ["a.pyc", "py"]),
        ("a?c", ["abc", "x/abc"], ["ac", "a/c", "abbc"]),
        ("a*b*c", ["abc", "aXbYc", "abcbc"], ["acb", "a/b/c"]),
        ("src/a*", ["src/a", "src/ab", "src/ab/c"], ["a", "src/b"]),
        (r"with\ space/x", ["with space/x"], ["with"]),
        (r"c\#/x", ["c#/x"], ["c/x"]),
        (r"lit\*eral", ["lit*eral"], ["litXeral"]),
        ("Case", ["Case"], ["case"]),
    ],
)
def test_each_pattern_fits_what_github_says(
    pattern: str, fitting: list[str], others: list[str]
) -> None:
    read = read_pattern(pattern)
    assert read is not None
    assert [path for path in (*fitting, *others) if read.fits(path)] == fitting


@pytest.mark.parametrize(
    "line",
    [
        "",
        "   ",
        "# a comment @mona",
        r"\#name @mona",
        "!name @mona",
        "x[0-9] @mona",
        "a//b @mona",
        "/ @mona",
        "x mona",
        "x @mona not-an-owner",
        "x @mona/",
        "x" * 1_001 + " @mona",
    ],
)
def test_lines_that_github_does_not_take_are_passed_over(line: str) -> None:
    assert read_codeowners(line) == ()


def test_a_line_that_cannot_be_read_takes_nobodys_place() -> None:
    rules = read_codeowners("* @mona\nx[ab] @ada\n* not-an-owner\n")
    assert owners_of(rules, "xa") == ("@mona",)


def test_windows_line_ends_are_line_ends() -> None:
    assert owners_of(read_codeowners("* @mona\r\nx @ada\r\n"), "x") == ("@ada",)


def test_of_too_many_lines_the_last_are_read() -> None:
    rules = read_codeowners("* @mona\n" + "x @ada\n" * MAX_RULES)
    assert len(rules) == MAX_RULES
    assert owners_of(rules, "y") == ()


def test_a_pattern_made_to_take_long_does_not() -> None:
    rules = read_codeowners("*a" * 400 + "b @mona\n" + "**/" * 300 + "x @ada\n")
    assert len(rules) == 2
    path = "/".join(["a" * 250] * 16)
    assert owners_of(rules, path) == ()
    assert effort(lambda: owners_of(rules, path), 2) < 2


@given(st.text(alphabet=r"ab/*?\#[]! @." + "\n", max_size=60), st.text("ab/#", max_size=20))
def test_whatever_a_repository_writes_is_read_without_an_error(text: str, path: str) -> None:
    assert isinstance(owners_of(read_codeowners(text), path), tuple)

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.shown import Removed, as_shown, describe_removed
from tests.effort import effort

PIECES = st.lists(
    st.sampled_from(
        [
            "<!--",
            "-->",
            "--",
            ">",
            "<!",
            "<?",
            "?>",
            "`",
            "```\n",
            "\n",
            "\n\n",
            "    ",
            "word ",
            "\\",
            "<div ",
            "x='y'",
            "<img src=u alt=v>",
            "![a](b)",
            "[x]: y (z)\n",
            "[x]",
            "(u 't')",
            "> ",
        ]
    ),
    max_size=14,
).map("".join)


def shown(text: str) -> str:
    return as_shown(text)[0]


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("plain *words*", "plain *words*"),
        ("a <!-- b --> c", "a  c"),
        ("<!-- a\n\nb -->c", "c"),
        ("`<!-- code -->` <!-- hidden -->", "`<!-- code -->`"),
        ("```\n<!-- code -->\n```", "```\n<!-- code -->\n```"),
        ("    <!-- code -->\n\nx", "<!-- code -->\n\nx"),
        ("text <!-- never closed is shown", "text <!-- never closed is shown"),
        ("<!-- never closed at a line's start\n\nhidden", ""),
        ("a <!-- shown\n\n<!-- hidden --> b", "a <!-- shown\n\n b"),
        ("\\`<!-- an escaped tick makes no code -->\\`", "``"),
        ("<div>\n`\n<!-- no code in HTML -->\n`\n</div>", "<div>\n`\n\n`\n</div>"),
        ("x<?php hidden ?>y", "xy"),
        ("x<!DOCTYPE hidden>y", "xy"),
        ("x<![CDATA[hidden]]>y", "xy"),
        ("[//]: # (hidden words)\ntext", "text"),
        ("[x]: http://u 'hidden'\n\nsee [x]", "see [x](http://u)"),
        ("[a](http://u 'hidden')", "[a](http://u)"),
        ("`[a](http://u 'code')`", "`[a](http://u 'code')`"),
        ("![hidden](http://u/i.png)", "(image: http://u/i.png)"),
        ("<img alt='hidden' src='http://u'>", "(image: http://u)"),
        ("<a href='http://u' title='hidden'>x</a>", '<a href="http://u">x</a>'),
        ("<details open><summary>s</summary>", "<details><summary>s</summary>"),
        ("List<String> and 1 < 2 > 0", "List and 1 < 2 > 0"),
        ("`Map<K extends V>`", "`Map<K extends V>`"),
    ],
)
def test_only_what_github_shows_is_left(text: str, seen: str) -> None:
    assert shown(text) == seen


def test_what_went_is_counted() -> None:
    removed = as_shown("a <!-- b --> c\u202e\u200b [d](e 'f')")[1]
    assert removed == Removed(1, 2, 1)
    assert (
        describe_removed(removed)
        == "1 HTML comment, 2 invisible characters, 1 piece of hidden text"
    )
    assert describe_removed(Removed()) == "nothing"
    assert not Removed()


def test_a_comment_made_by_removing_another_goes_too() -> None:
    assert "hidden" not in shown("<!<!-- x -->-- hidden -->")


def test_a_comment_nested_deeper_than_we_chase_is_made_visible() -> None:
    text = "x " + "<!" * 12 + "<!-- a -->" + "-- b -->" * 12
    assert "<!--" not in shown(text)


@given(PIECES)
def test_no_mixture_crashes_and_no_more_is_found_the_second_time(text: str) -> None:
    once = shown(text)
    assert not as_shown(once)[1].invisible_characters
    assert not any(char in once for char in "\u200b\u202e\ue000")


@given(st.text(max_size=200))
def test_no_text_crashes(text: str) -> None:
    as_shown(text)[0].encode()


# Forms that GitHub does not show, with `{}` where the hidden words stand.
HIDDEN_FORMS = {
    "a comment": "<!-- {} -->",
    "a comment in a sentence": "a <!-- {} --> b",
    "a processing instruction": "<?x {} ?>",
    "a declaration": "<!DOCTYPE {}>",
    "a section of CDATA": "<![CDATA[{}]]>",
    "an end tag that is none": "<div>\n</ {}>\n</div>",
    "a comment with one dash": "<div>\n<!-{}>\n</div>",
    "what follows a fence's language": "```python {}\ncode\n```",
    "what follows a fence of waves": "~~~python {}\ncode\n~~~",
    "a diagram's comment": "```mermaid\n%% {}\ngraph TD\n```",
    "a map's properties": '```geojson\n{{"a": "{}"}}\n```',
    "a surplus cell": "| a |\n|---|\n| 1 | {} |",
    "a footnote without a reference": "[^x]: {}",
    "a footnote that only another one names": "[^x]: [^y]\n\n[^y]: {}",
    "a second footnote of one label": "a[^x]\n\n[^x]: b\n[^x]: {}",
    "a definition without a link": "[x]: http://u ({})",
    "a definition that is a remark": "[//]: # ({})",
    "a definition's title": "[x]: http://u '{}'\n\n[x]",
    "a link's title": "[a](http://u '{}')",
    "a link's title in brackets": "[a](http://u ({}))",
    "a link's title with an escape": '[a](http://u "\\" {}")',
    "a link's title over two lines": "[a](http://u\n'x\n{}')",
    "a title behind an address in angles": "[a](<b c> '{}')",
    "a link around nothing": "[](http://u/{})",
    "a link around a blank": "[ ](http://u/{})",
    "a link around a comment": "[<!-- x -->](http://u/{})",
    "a link around an entity": "[&#8203;](http://u/{})",
    "an image's text": "![{}](http://u)",
    "an image tag's text": "<img src='http://u' alt='{}'>",
    "an attribute": "<b title='{}'>x</b>",
    "an attribute without a value": "<b {}>x</b>",
    "an attribute with no space before it": "<div>\n<a href='x'title='{}'>y</a>\n</div>",
    "an attribute behind a slash": "<div>\n<p align=left/title='{}'>y</p>\n</div>",
    "an end tag's attribute": "<div>\n<b>x</b {}>\n</div>",
    "an attribute over an empty line": "<div title='\n\n{}'>x</div>",
    "a drawing": "<svg><text>{}</text></svg>",
    "what only another browser shows": "<ruby>x<rp>{}</rp></ruby>",
    "a phantom in a formula": "$\\phantom{{{}}}$",
    "a remark in a formula": "$$\n% {}\nx\n$$",
    "an element that a rule keeps open": "a <hr/><rp>b\n\n{}",
    "an element that another keeps open": "a <div><video>b\n\n{}",
    "an element that an end tag keeps open": "a</p><audio>b\n\n{}",
    "an element that the end of no paragraph reaches": "a <template> b\n\n{}",
    "an end tag that does not reach its element": "<div>\n<rp><div></rp>{}\n</div>",
    "an element in tight text": "- a <rp>\n  <!-- x --> {}",
    "a tag behind a comment that ends twice": "<!--> <rp> -->\n\n{}",
    "a tag behind the other end of a comment": "<!-- a --!> <rp> -->\n\n{}",
    "a tag in what may be a declaration": "a <!b <template>\n\n{}",
    "a tag in what may be CDATA": "a <![CDATA[b> <style>{}]]>",
    "a comment behind what is no fence": "\u200b~~~\n<!-- {} -->",
    "a comment on a line that is none": "a\u2028~~~\n<!-- {} -->",
    "a surplus cell below a plain head": "a\n|-|\nb | {}",
    "a surplus cell below an empty item": "a\n1. \n|-|\nb | {}",
    "a surplus cell below an indented head": "a\n    b\n|-|\nc | {}",
    "a fence that looks like the head of a table": "~~~ | {}\n-|-\n~~~",
    "an element that ends a table": "| a |\n|---|\n<math>\n{}",
    "an attribute below a quote": "> a\n</b>\n<INPUT value= {}",
    "a footnote behind an open comment": "a[^x]\n\n[^x]: {}\n\n<!-- b",
    "an element behind one that breaks out": "a <svg><hr/>b<math></svg>{}",
    "an element below an open select": "a <select> b\n\n<rp>c\n\n{}",
    "a line below a definition in a footnote": "[^x]: [y]: u\n{}",
    "a footnote that an address swallows": "http://u/[^x]\n\n[^x]: {}",
}
# Around a form: on its own, between paragraphs, and inside of containers.
PLACES = ["{}", "before\n\n{}\n\nafter", "> {}", "- {}", "1. a\n\n   {}"]
SECRET = "unheardofzq"


def put(form: str, place: str) -> str:
    """Return the form inside of a container, its lines indented as the container wants it."""
    first = place.partition("{}")[0].rpartition("\n")[2]
    rest = first if first == "> " else " " * len(first)
    return place.replace("{}", form.replace("\n", "\n" + rest))


@pytest.mark.parametrize("form", HIDDEN_FORMS.values(), ids=HIDDEN_FORMS)
def test_what_is_hidden_in_this_form_is_not_passed_on(form: str) -> None:
    for place in PLACES:
        assert SECRET not in shown(put(form.format(SECRET), place)), place


@pytest.mark.parametrize("form", HIDDEN_FORMS.values(), ids=HIDDEN_FORMS)
def test_what_is_hidden_in_this_form_is_counted(form: str) -> None:
    removed = as_shown(form.format("words"))[1]
    image_text = form.startswith("![")
    assert bool(removed) != image_text, "an image becomes its address, and nothing is lost"


@pytest.mark.parametrize("name", ["words", "obey-these-words", "x-words"])
def test_the_name_of_an_element_gives_no_orders(name: str) -> None:
    assert shown(f"a <{name}> b </{name}> c") == "a  b  c"
    assert "words" not in shown(f"<div>\n<{name}>\nx\n</{name}>\n</div>")


SHOWN_FORMS = [
    "{}",
    "# {}",
    "*{}* and **b**",
    "> {}",
    "- {}",
    "1. a\n2. {}",
    "- a\n  - {}",
    "`{}`",
    "```\n{}\n```",
    "```diff\n- {}\n```",
    "    a\n    {}",
    "| a |\n|---|\n| {} |",
    "[{}](http://u)",
    "[{}]\n\n[x]: y",
    "[a](http://u/{})",
    "<http://u/{}>",
    "a[^x]\n\n[^x]: {}",
    "<details><summary>{}</summary>\n\nx\n\n</details>",
    "<details>\n\n{}\n\n</details>",
    "<object>{}</object>",
    "a list<object> of {}",
    "in the <head> {}",
    "a <select> of {}",
    "a </ {}> b",
    "a <!-{}> b",
    "<b>x</b {}>",
    "<a href='x'title='{}'>y</a>",
    "<script>{}</script>",
    "a \\<!-- {} --> b",
    "&lt;!-- {} --&gt;",
    "a <!-- {}",
    "it costs $5, {} costs $6",
    "~~{}~~",
]


@pytest.mark.parametrize("form", SHOWN_FORMS)
def test_what_is_shown_in_this_form_is_passed_on(form: str) -> None:
    for place in PLACES:
        assert SECRET in shown(put(form.format(SECRET), place)), place


WORST = [
    "<!--",
    "![",
    "[",
    "<a ",
    "](a (",
    "<!",
    "`",
    "*a_ ",
    "[x]: y\n",
    "> ",
    "[](",
    "[a](",
    "[^a]: ",
    "[^a]",
    "<svg>",
    "<div>\n",
    "a|b\n-|-\n",
    "$`",
    "$",
    "- ",
    "#\n",
    "</ ",
    "<x ",
    "&#60;",
    "a='",
    "<textarea>\n",
]


@pytest.mark.parametrize(
    "text", [(unit * 65_536)[:65_536] for unit in WORST], ids=[unit.strip() for unit in WORST]
)
def test_the_longest_body_takes_a_second_at_most(text: str) -> None:
    assert effort(lambda: as_shown(text), 1) < 1


@pytest.mark.parametrize(
    "text",
    [
        "<" + "a " * 30_000,
        "a|" * 300 + "\n" + "-|" * 300 + "\n" + "x\n" * 20_000,
        "[^a]: " * 5_000 + "[^a]" * 5_000,
        "".join(f"[^{n}]: x\n" for n in range(5_000)) + "[^9]" * 3_000,
        "> " * 5_000 + "\n" + "> a\n" * 10_000,
    ],
    ids=["tag", "table", "footnotes", "labels", "quotes"],
)
def test_what_one_part_costs_does_not_grow_with_the_others(text: str) -> None:
    assert effort(lambda: as_shown(text), 1) < 1


@pytest.mark.parametrize("filler", [" ", "\n", "\t"])
def test_white_space_in_an_image_costs_no_more_than_its_length(filler: str) -> None:
    assert effort(lambda: as_shown("![a](" + filler * 60_000), 1) < 1

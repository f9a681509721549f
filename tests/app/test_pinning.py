from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.pinning import unpinned


@pytest.mark.parametrize(
    "command",
    [
        "make all",
        "pip install --require-hashes -r requirements.txt",
        "python3 -m pip install --require-hashes --no-deps -r a.txt",
        "pip install --no-deps -e .",
        "pip install --no-index ./wheels/a.whl",
        "npm ci",
        "npm run build",
        "npm test",
        "apt-get update && apt-get install -y jq=1.6-2.1 curl=7",
        "apt-get update",
        "echo pip",
        "",
    ],
)
def test_what_is_pinned_passes(command: str) -> None:
    assert unpinned(command) is None


@pytest.mark.parametrize(
    ("command", "line"),
    [
        ("pip install six", "pip install --require-hashes -r requirements.txt"),
        ("pip3 install six==1.0", "pip install --require-hashes -r requirements.txt"),
        ("pip install -r requirements.txt", "pip install --require-hashes -r requirements.txt"),
        ("python3 -m pip install six", "--require-hashes"),
        ("/opt/v/bin/pip install -c c.txt six", "--require-hashes"),
        ("pip install -e .", "pip install --no-deps -e ."),
        ("make && pip install six", "--require-hashes"),
        ("make; PIP_X=1 pip install six", "--require-hashes"),
        ("make\npip install six", "--require-hashes"),
        ("(cd a && npm install)", "npm ci"),
        ("npm i left-pad", "npm ci"),
        ("apt-get update && apt-get install -y jq", "apt-get install -y jq=VERSION"),
        ("sudo apt-get install -y --no-install-recommends jq", "jq=VERSION"),
        ("pip install 'six", "cannot be read"),
    ],
)
def test_what_is_not_pinned_is_shown_with_the_line_to_write(command: str, line: str) -> None:
    said = unpinned(command)
    assert said is not None
    assert line in said


@given(st.text())
def test_any_text_gets_an_answer(command: str) -> None:
    assert unpinned(command) is None or unpinned(command)

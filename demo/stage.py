"""The demo's stage: a local GitHub with a faulty repository, a model that follows a script.

Knows nothing of Drydock: `environment()` is what an operator would set to connect it.
"""

from __future__ import annotations

import secrets
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from demo.github import AppKeys, Issue, LocalGitHub, Person, Repo
from demo.model import ScriptedModel
from demo.scenario import Scenario, Script, fix_after_failing_test, follow_up

MODEL = "openai/scripted-1"
FAULTY = """\
\"\"\"Prices of widgets.\"\"\"


def discounted(price: float, percent: float) -> float:
    \"\"\"Return `price` less `percent` per cent.\"\"\"
    return price - percent
"""
WRONG = "    return price - price * percent\n"
RIGHT = "    return price * (1 - percent / 100)\n"
TESTS = """\
import pytest

from pricing import discounted


@pytest.mark.parametrize(
    ("price", "percent", "expected"), [(100, 10, 90), (80, 25, 60), (50, 0, 50), (20, 100, 0)]
)
def test_a_discount_is_a_share_of_the_price(price, percent, expected):
    assert discounted(price, percent) == pytest.approx(expected)
"""
FILES = {
    "README.md": "# Widgets\n\nPrices of widgets.\n",
    "pricing.py": FAULTY,
    "test_pricing.py": TESTS,
    ".github/drydock.yml": "test: python3 -m pytest -q\n",
    ".gitignore": "__pycache__/\n.pytest_cache/\n",
}
# What a reviewer says to the fixed line, and the change that answers it.
REVIEWED_PATH, REVIEWED_LINE = "pricing.py", 6
WISH = "more than 100 percent off should be an error, not money for the customer"
CHECKED = """\
    if percent > 100:
        raise ValueError("a discount is at most 100 percent")
    return price * (1 - percent / 100)
"""
TITLE = "A discount of 25 % on 80 gives 55"
BODY = """\
`discounted(80, 25)` in `pricing.py` returns 55. It should be 60: the percentage is taken off as
if it were an amount.

`test_pricing.py` shows it.
"""


def fixing() -> Scenario:
    """The first edit is wrong, its test fails, the second edit is right."""
    faulty = "    return price - percent\n"
    return fix_after_failing_test("pricing.py", (faulty, WRONG), (WRONG, RIGHT))


def reviewed() -> Scenario:
    """What a reviewer asked for, in one edit."""
    commit = "fix: Refuse discounts of more than 100 percent"
    return follow_up("Continue pull request", "pricing.py", RIGHT, CHECKED, commit)


@dataclass(frozen=True)
class Connection:
    """What connects Drydock to this stage, by the environment's names."""

    app: AppKeys
    environment: dict[str, str]
    webhook_url: str


class Stage:
    """`with Stage(folder) as stage:` both servers run on loopback until the end of the block."""

    def __init__(
        self,
        folder: Path,
        script: Scenario | Sequence[Scenario] | Script | None = None,
        *,
        web_port: int | None = None,
    ) -> None:
        self.folder = folder
        self._key = secrets.token_urlsafe(24)
        self.webhook_secret = secrets.token_urlsafe(32)
        self.github = LocalGitHub(folder / "github")
        self.model = ScriptedModel(script or (reviewed(), fixing()), api_key=self._key)
        self.web_port = web_port or free_port()

    def __enter__(self) -> Self:
        self.folder.mkdir(parents=True, exist_ok=True)
        self.github.start()
        self.model.start()
        self.connection = self._connect()
        return self

    def __exit__(self, *_: object) -> None:
        self.model.stop()
        self.github.stop()

    @property
    def web_url(self) -> str:
        return f"http://127.0.0.1:{self.web_port}"

    def _connect(self) -> Connection:
        """Register the App as an operator would, and keep its secrets in files."""
        app = self.github.create_app("drydock", webhook_secret=self.webhook_secret)
        environment = {
            "DRYDOCK_APP_ID": str(app.app_id),
            "DRYDOCK_PRIVATE_KEY_FILE": self._secret("app.pem", app.private_key_pem),
            "DRYDOCK_WEBHOOK_SECRET_FILE": self._secret("webhook-secret", self.webhook_secret),
            "DRYDOCK_MODEL_API_KEY_FILE": self._secret("model-key", self._key),
            "DRYDOCK_GITHUB_API_URL": self.github.api_url,
            "DRYDOCK_GITHUB_URL": self.github.web_url,
            "DRYDOCK_MODEL": MODEL,
            "DRYDOCK_MODEL_API_BASE": self.model.openai_base,
            # What a small hosted model costs, so that the report has a figure to show.
            "DRYDOCK_MODEL_INPUT_USD_PER_MTOK": "0.15",
            "DRYDOCK_MODEL_OUTPUT_USD_PER_MTOK": "0.60",
            "DRYDOCK_MODEL_MAX_INPUT_TOKENS": "128000",
            "DRYDOCK_MODEL_MAX_OUTPUT_TOKENS": "16384",
            "DRYDOCK_BIND": f"127.0.0.1:{self.web_port}",
            "DRYDOCK_WEB_URL": self.web_url,
        }
        return Connection(app, environment, f"{self.web_url}/webhooks/github")

    def _secret(self, name: str, value: str) -> str:
        path = self.folder / name
        path.touch(mode=0o600)
        path.write_text(value)
        return str(path)

    def go_live(self) -> None:
        """Point the App's webhook at Drydock; GitHub pings it."""
        connection = self.connection
        self.github.set_webhook(connection.app, connection.webhook_url, self.webhook_secret)

    def make_repository(
        self, name: str = "widgets", files: dict[str, str] | None = None
    ) -> tuple[Repo, Person]:
        """Make a repository that the App is installed on, and somebody who may write to it."""
        chosen = FILES if files is None else files
        repo = self.github.create_repo("acme", name, chosen or None)
        person = self.github.create_user("mona" if name == "widgets" else f"mona-{name}")
        repo.grant(person, "write")
        self.github.install(self.connection.app, repo)
        return repo, person

    def open_issue(self, repo: Repo, person: Person) -> Issue:
        """Open the issue that the script knows how to fix."""
        return person.opens_issue(repo, TITLE, BODY)


def free_port() -> int:
    """Return a port on loopback that nobody listens on now."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
    return port

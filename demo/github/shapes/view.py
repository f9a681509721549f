"""Where a reader looks from: the addresses in an answer are those it was reached by."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from demo.github.records import Repo
    from demo.github.world import World

Json = dict[str, Any]


@dataclass(frozen=True)
class View:
    """A world seen from a base address such as `http://127.0.0.1:3000`."""

    world: World
    base: str

    def api(self, path: str) -> str:
        return f"{self.base}/api/v3{path}"

    def repo_api(self, repo: Repo, path: str = "") -> str:
        return self.api(f"/repos/{repo.full_name}{path}")

    def web(self, path: str) -> str:
        return f"{self.base}{path}"

    def repo_web(self, repo: Repo, path: str = "") -> str:
        return self.web(f"/{repo.full_name}{path}")


def node_id(kind: str, number: int) -> str:
    """Return an opaque global id, as GraphQL takes it."""
    return f"{kind}_{base64.urlsafe_b64encode(f'{kind}{number}'.encode()).decode().rstrip('=')}"

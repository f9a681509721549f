"""How far a branch is behind another: https://docs.github.com/en/rest/commits/commits#compare-two-commits"""

from __future__ import annotations

from urllib.parse import quote

from app.github.auth import Scope
from app.github.gateway import GitHubGateway
from app.github.transport import StrictRequester


def commits_behind(gateway: GitHubGateway, head_sha: str, base: str) -> int:
    """Return how many commits of the branch `base` are not in `head_sha`. Errors: GitHubError."""
    path = f"{gateway.path}/compare/{quote(base, safe='/')}...{head_sha}?per_page=1"

    def ask(talk: StrictRequester) -> int:
        _, answer = talk.requestJsonAndCheck("GET", path)
        return int(answer["behind_by"])

    return gateway.ask(ask, Scope.CONTENTS_READ)

"""How many pull requests of one account are open in a repository."""

from __future__ import annotations

from itertools import islice

from github.Repository import Repository

from app.github.gateway import GitHubGateway
from app.github.transport import StrictRequester

# Ten pages; a repository that has more open has other troubles.
MAX_PULLS = 1000


def count_open_pulls(gateway: GitHubGateway, login: str) -> int:
    """Count them, among the newest MAX_PULLS. Errors: GitHubError."""

    def count(talk: StrictRequester) -> int:
        found = islice(Repository(talk, url=gateway.path).get_pulls("open"), MAX_PULLS)
        return sum(pull.user is not None and pull.user.login == login for pull in found)

    return gateway.ask(count)

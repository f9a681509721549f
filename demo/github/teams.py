"""Teams of an organization, as the local GitHub remembers them."""

from __future__ import annotations

from dataclasses import dataclass, field

from demo.github.records import ROLES, Repo, User


@dataclass(eq=False, kw_only=True)
class Team:
    """A team of an organization.

    `members` are lower-case logins with the state of each (active, or pending until an invitation
    is taken); `roles` are what the team has on repositories, by their ids.
    """

    id: int
    org: User
    name: str
    slug: str
    members: dict[str, str] = field(default_factory=dict)
    roles: dict[int, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.org.login}/{self.slug}"

    def grant(self, repo: Repo, role: str) -> None:
        """Give the team, and so its members, a role on a repository of its organization."""
        if role not in ROLES or repo.owner is not self.org:
            raise ValueError(f"{self} cannot have {role} on {repo.full_name}")
        self.roles[repo.id] = role

    def role_of(self, user: User, repo: Repo) -> str:
        """Return what somebody has on a repository by being in the team."""
        is_in = self.members.get(user.login.lower()) == "active"
        return self.roles.get(repo.id, "none") if is_in else "none"

"""Who is asking, and what they may: App JWTs, installation tokens, people's tokens, nobody.

The messages are GitHub's own. See https://docs.github.com/apps/creating-github-apps/authenticating-with-a-github-app
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jwt

from demo.github.acts.installs import LEVELS
from demo.github.errors import (
    ApiError,
    bad_credentials,
    not_accessible,
    not_found,
    requires_authentication,
)
from demo.github.records import ROLES, App, Installation, Repo, Token, User
from demo.github.world import World

JWT_MAX_AHEAD_S = 600
_ROLE_FOR = {"read": "read", "write": "write", "admin": "admin"}


@dataclass(frozen=True)
class Principal:
    """The one a request acts for. All None is an anonymous caller; `app` alone is a JWT."""

    app: App | None = None
    token: Token | None = None

    @property
    def installation(self) -> Installation | None:
        return self.token.installation if self.token else None

    @property
    def user(self) -> User | None:
        """The account that acts: a person, or the App's bot; None for a JWT and for nobody."""
        if self.token is None:
            return None
        if self.token.user is not None:
            return self.token.user
        return self.token.installation.app.bot if self.token.installation else None

    @property
    def via_app(self) -> App | None:
        return self.installation.app if self.installation else None

    @property
    def rate_key(self) -> str:
        if self.installation is not None:
            return f"installation ID {self.installation.id}"
        if self.app is not None:
            return f"app ID {self.app.id}"
        return f"user ID {self.user.id}" if self.user else "anonymous"

    @property
    def reads_members(self) -> bool:
        """Whether an App's token shows it the teams of the organization that it is installed on."""
        return self.token is not None and "members" in self.token.permissions

    def covers(self, repo: Repo) -> bool:
        """Whether the repository is within this token's own reach (public access aside)."""
        token = self.token
        if token is None:
            return False
        if token.user is not None:
            return repo.role_of(token.user) != "none"
        within = token.repository_ids is None or repo.id in token.repository_ids
        return within and token.installation is not None and token.installation.covers(repo)

    def sees(self, repo: Repo) -> bool:
        return not repo.private or self.covers(repo)

    def holds(self, repo: Repo, permission: str, level: str) -> bool:
        """Whether it has a permission such as `issues` at a level on a repository."""
        if not self.covers(repo) or self.token is None:
            return False
        if self.token.user is not None:
            role = repo.role_of(self.token.user)
            return ROLES.index(role) >= ROLES.index(_ROLE_FOR[level])
        held = self.token.permissions.get(permission, "none")
        return LEVELS.index(held) >= LEVELS.index(level)


ANONYMOUS = Principal()


def identify(world: World, authorization: str | None) -> Principal:
    """Return who an `Authorization` header speaks for. ApiError 401 or 403 when it is no good."""
    if not authorization:
        return ANONYMOUS
    scheme, _, value = authorization.partition(" ")
    if scheme.lower() not in ("bearer", "token") or not value.strip():
        raise bad_credentials()
    value = value.strip()
    if value.count(".") == 2:
        return Principal(app=identify_app(world, value))
    return identify_token(world, value)


def identify_token(world: World, value: str) -> Principal:
    """Return who a token speaks for. ApiError 401 when dead, 403 when its installation sleeps."""
    token = world.live_token(value)
    if token is None:
        raise bad_credentials()
    if token.installation is not None and token.installation.suspended_at is not None:
        raise ApiError(403, "This installation has been suspended")
    return Principal(token=token)


def identify_app(world: World, encoded: str) -> App:
    """Return the App that signed a JWT. ApiError 401 with GitHub's sentence for each defect."""
    undecodable = ApiError(401, "A JSON web token could not be decoded")
    try:
        claims = jwt.decode(encoded, options={"verify_signature": False})
    except jwt.InvalidTokenError:
        raise undecodable from None
    app = _issuer(world, claims.get("iss"))
    try:
        jwt.decode(encoded, app.public_key_pem, algorithms=["RS256"], options=_SIGNATURE_ONLY)
    except jwt.InvalidTokenError:
        raise undecodable from None
    _check_times(claims, world.now())
    return app


_SIGNATURE_ONLY: Any = {
    "verify_exp": False,
    "verify_iat": False,
    "verify_nbf": False,
    "verify_iss": False,
    "verify_sub": False,
}


def _issuer(world: World, issuer: object) -> App:
    for app in tuple(world.apps.values()):
        if str(issuer) in (str(app.id), app.client_id):
            return app
    raise ApiError(404, "Integration not found")


def _check_times(claims: dict[str, Any], now: float) -> None:
    """GitHub measures both claims against its own clock: issued in the past, at most 10 minutes."""
    issued, expires = claims.get("iat"), claims.get("exp")
    if not isinstance(expires, int | float) or expires <= now:
        raise ApiError(
            401,
            "'Expiration time' claim ('exp') must be a numeric value representing the future "
            "time at which the assertion expires",
        )
    if expires > now + JWT_MAX_AHEAD_S:
        raise ApiError(401, "'Expiration time' claim ('exp') is too far in the future")
    if not isinstance(issued, int) or issued > now:
        raise ApiError(
            401,
            "'Issued at' claim ('iat') must be an Integer representing the time that the "
            "assertion was issued",
        )


def require_app(principal: Principal) -> App:
    """Return the App of a JWT. ApiError 401 for any other credential."""
    if principal.app is None:
        raise ApiError(401, "A JSON web token could not be decoded")
    return principal.app


def require_installation(principal: Principal) -> Installation:
    if principal.installation is None:
        raise ApiError(
            403,
            "You must authenticate with an installation access token in order to list "
            "repositories for an installation.",
        )
    return principal.installation


def require(principal: Principal, repo: Repo, needs: tuple[str, ...], *, public: bool) -> None:
    """Check that one of `needs` (such as `issues:write`) is held.

    `public` says that anybody may do this on a public repository. ApiError 404 when the
    repository must not even be known to exist, 401 for nobody, 403 for too little.
    """
    if principal.app is not None:
        raise bad_credentials()
    if not principal.sees(repo):
        raise not_found()
    if public and not repo.private:
        return
    pairs = (need.split(":") for need in needs)
    if any(principal.holds(repo, permission, level) for permission, level in pairs):
        return
    if principal.user is None:
        raise requires_authentication()
    if principal.installation is not None:
        raise not_accessible()
    raise ApiError(403, "Must have admin rights to Repository.")

"""What the parts below raise that an operator can act on, in words."""

from __future__ import annotations

from alembic.util.exc import CommandError
from kombu.exceptions import OperationalError as QueueError
from redis import RedisError
from sqlalchemy.exc import SQLAlchemyError

from app.github.errors import GitHubError
from app.settings import SettingsError
from app.store import BadDatabaseUrl
from cli.redis import RedisMissing
from egress.audit import AuditBroken
from sandbox.provider import MachineLost, ProviderFailed
from sandbox.template.bake import BakeFailed
from sandbox.template.definition import DefinitionError
from sandbox.template.host import HostError
from sandbox.template.store import TemplateInUse, TemplateNotFound
from workers.checkout import CheckoutFailed
from workers.git import GitFailed
from workers.services import database_words

# Their own texts say what to do.
_SPEAKING = (
    AuditBroken,
    BakeFailed,
    CheckoutFailed,
    DefinitionError,
    GitFailed,
    HostError,
    MachineLost,
    ProviderFailed,
    RedisMissing,
    SettingsError,
    TemplateInUse,
    TemplateNotFound,
)


def known_words(error: Exception) -> str | None:
    """Return the message for an error that is nobody's mistake; None for any other."""
    if isinstance(error, BadDatabaseUrl):
        return f"DRYDOCK_DATABASE_URL: {error}"
    if isinstance(error, CommandError):
        return f"the database belongs to a newer version of Drydock: {error}"
    if isinstance(error, SQLAlchemyError):
        return f"the database does not answer ({database_words(error)}): see DRYDOCK_DATABASE_URL"
    if isinstance(error, RedisError | QueueError):
        return f"Redis does not answer ({error}): see DRYDOCK_REDIS_URL"
    if isinstance(error, GitHubError):
        return f"GitHub did not do it: {error}"
    return str(error) if isinstance(error, _SPEAKING) else None

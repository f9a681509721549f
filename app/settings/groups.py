"""Settings that are needed together, for GitHub or for a model: all of them, or what is missing."""

from __future__ import annotations

from dataclasses import dataclass

from pydantic import SecretStr

from app.app_key import UnusableKey, load_app_key, normalised_pem
from app.settings.errors import SettingsError
from app.settings.values import Settings
from app.settings.vendors import key_names, model_vendor


@dataclass(frozen=True)
class GitHubSettings:
    """What the GitHub App needs; all of it is there and the key was read as RSA."""

    app_id: int
    private_key: SecretStr
    webhook_secret: SecretStr
    api_url: str
    url: str


@dataclass(frozen=True)
class ModelSettings:
    """What a run needs to reach its model. `api_key` is None for a server that wants none."""

    model: str
    api_key: SecretStr | None
    api_base: str | None


def _key_problem(pem: str) -> str | None:
    """Why this is not a usable App key, in words without any of it; None when it is."""
    try:
        load_app_key(pem)
    except UnusableKey as error:
        return str(error)
    return None


def github_problems(settings: Settings) -> tuple[str, ...]:
    """What is missing before Drydock can act as a GitHub App, as sentences; () when nothing."""
    problems = []
    if settings.app_id is None:
        problems.append("DRYDOCK_APP_ID is not set: it is on the App's settings page")
    if settings.private_key is None:
        problems.append(
            "DRYDOCK_PRIVATE_KEY_FILE is not set: the path of the .pem file from the App's page"
        )
    elif problem := _key_problem(settings.private_key.get_secret_value()):
        problems.append(f"DRYDOCK_PRIVATE_KEY {problem}")
    if settings.webhook_secret is None:
        problems.append(
            "DRYDOCK_WEBHOOK_SECRET is not set: without it anybody could send webhooks;"
            " choose one and enter it on the App's page too"
        )
    return tuple(problems)


def require_github(settings: Settings) -> GitHubSettings:
    """Return the GitHub group. SettingsError listing everything that is missing."""
    problems = github_problems(settings)
    app_id, key, secret = settings.app_id, settings.private_key, settings.webhook_secret
    if problems or app_id is None or key is None or secret is None:
        raise SettingsError(problems)
    pem = SecretStr(normalised_pem(key.get_secret_value()))
    return GitHubSettings(app_id, pem, secret, settings.github_api_url, settings.github_url)


def model_problems(settings: Settings) -> tuple[str, ...]:
    """What is missing before a model can be called. A server of one's own may want no key."""
    if settings.model is None:
        return ("DRYDOCK_MODEL is not set: a LiteLLM model name such as openai/gpt-4.1",)
    if settings.model_api_key is None and settings.model_api_base is None:
        vendor = model_vendor(settings.model)
        also = f" (or {key_names(vendor)[0]})" if vendor else ""
        return (f"DRYDOCK_MODEL_API_KEY{also} is not set: the key for {settings.model}",)
    return ()


def require_model(settings: Settings) -> ModelSettings:
    """Return the model group. SettingsError saying what is missing."""
    problems = model_problems(settings)
    if problems or settings.model is None:
        raise SettingsError(problems)
    return ModelSettings(settings.model, settings.model_api_key, settings.model_api_base)

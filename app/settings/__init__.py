"""Settings: what an operator sets, read once at the edge.

    settings = load_settings()
    github = require_github(settings)

An environment variable wins over the file. Every problem is collected and told in words that name
what to set; a secret's value never appears in one.

The values are read by hand and only validated by pydantic, because a message has to name the
variable or the file's key that a wrong value came from.
"""

from app.settings.ca_bundle import system_ca_bundle
from app.settings.errors import SettingsError
from app.settings.groups import (
    GitHubSettings,
    ModelSettings,
    github_problems,
    model_problems,
    require_github,
    require_model,
)
from app.settings.sources import CONFIG_NAME, CONFIG_VARIABLE, load_settings
from app.settings.values import ENV_PREFIX, SECRET_FIELDS, Settings, variable
from app.settings.vendors import base_names, key_names, model_vendor

__all__ = [
    "CONFIG_NAME",
    "CONFIG_VARIABLE",
    "ENV_PREFIX",
    "SECRET_FIELDS",
    "GitHubSettings",
    "ModelSettings",
    "Settings",
    "SettingsError",
    "base_names",
    "github_problems",
    "key_names",
    "load_settings",
    "model_problems",
    "model_vendor",
    "require_github",
    "require_model",
    "system_ca_bundle",
    "variable",
]

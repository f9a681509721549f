"""What a repository's default branch says about runs on it: its config, and its conventions.

Read from GitHub's API before anything is started for a run, or from a mirror where there is no
GitHub. Both read one commit, so that the two files belong together.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from app.config_limits import Limits, error_at, limits_of, parse_within
from app.github.errors import AccessLost, Invalid, NotFound
from app.github.gateway import GitHubGateway
from app.repo_config import (
    CONFIG_PATH,
    MAX_BYTES,
    ConfigError,
    RepoConfig,
    parse_leniently,
    parse_repo_config,
)
from workers.checkout import base_of
from workers.git import Git
from workers.objects import UnreadableBlob, read_blob
from workers.services import Services, template_names

# A model reads all of it with every message.
MAX_CONVENTIONS = 64 * 1024


@dataclass(frozen=True)
class Rules:
    """`conventions` is the text of the config's `instructions`, "" for none."""

    config: RepoConfig
    conventions: str = ""


NO_RULES = Rules(RepoConfig.model_validate({}))

# A file at the commit in question; None when it is not there. `UnreadableBlob` or `Invalid` when
# it is no ordinary file or too long.
Read = Callable[[str], bytes | None]


def operator_limits(services: Services) -> Limits:
    return limits_of(services.settings, template_names(services.settings))


def rules_on_github(
    gateway: GitHubGateway, default_branch: str, limits: Limits
) -> Rules | ConfigError:
    """Read the rules at the branch's tip. An empty repository has none. Errors: GitHubError."""
    sha = gateway.branch_sha(default_branch)
    if sha is None:
        return NO_RULES
    return read_rules(lambda path: gateway.get_file(path, sha), limits)


def default_branch_of(gateway: GitHubGateway) -> str:
    """Return the branch that the rules are on.

    AccessLost when the repository is not to be seen: only the App's access had led us there.
    """
    try:
        return gateway.get_repo().default_branch
    except NotFound as error:
        raise AccessLost(f"GitHub does not show it to the App: {error}") from error


def config_on_github(gateway: GitHubGateway, default_branch: str) -> RepoConfig:
    """Read the config alone, for who may start what; a run tells what is wrong with it.

    Errors: GitHubError.
    """
    try:
        return parse_leniently(gateway.get_file(CONFIG_PATH, default_branch))
    except Invalid:
        return NO_RULES.config


def rules_in_mirror(
    git: Git, mirror: Path, default_branch: str, limits: Limits | None = None
) -> Rules | ConfigError:
    """Read the rules at the tip that the mirror has; without limits, what the files say."""
    tip = base_of(git, mirror, default_branch)
    if not isinstance(tip, str):
        return NO_RULES
    return read_rules(lambda path: read_blob(git, mirror, tip, path, MAX_BYTES), limits)


def read_rules(read: Read, limits: Limits | None) -> Rules | ConfigError:
    """Return what the files say, or what is wrong with them."""
    try:
        data = read(CONFIG_PATH)
    except (UnreadableBlob, Invalid) as error:
        return ConfigError(str(error))
    config = parse_repo_config(data) if limits is None else parse_within(data, limits)
    if isinstance(config, ConfigError) or config.instructions is None:
        return config if isinstance(config, ConfigError) else Rules(config)
    text = _conventions(read, config.instructions)
    if isinstance(text, str):
        return Rules(config, text)
    return error_at(data, "instructions", text.reason)


def _conventions(read: Read, path: str) -> str | ConfigError:
    try:
        data = read(path)
    except (UnreadableBlob, Invalid) as error:
        return ConfigError(f"instructions: {error}")
    if data is None:
        return ConfigError(f"instructions: there is no {path} on the default branch")
    if len(data) > MAX_CONVENTIONS:
        return ConfigError(f"instructions: {path} is larger than {MAX_CONVENTIONS // 1024} KiB")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return ConfigError(f"instructions: {path} is not UTF-8")

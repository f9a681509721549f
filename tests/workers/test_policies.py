from __future__ import annotations

import pytest

from app.repo_config import RepoConfig, parse_repo_config
from app.settings import load_settings
from workers.policies import author_of, dock_limits, gate_rules, requester_of


def test_the_operators_limits_reach_the_dock_in_its_units() -> None:
    env = {"DRYDOCK_TTL_MINUTES": "2", "DRYDOCK_MEMORY_MIB": "512", "DRYDOCK_TEST_TIMEOUT_S": "7"}
    limits = dock_limits(load_settings(None, env))
    assert (limits.ttl_s, limits.memory_mib, limits.test_s) == (120, 512, 7)


@pytest.mark.parametrize(("own", "ttl_s"), [("30s", 30), ("2m", 120), ("2h", 120)])
def test_a_repository_makes_a_machines_life_shorter_but_never_longer(
    own: str, ttl_s: float
) -> None:
    config = parse_repo_config(f"ttl: {own}\n".encode())
    assert isinstance(config, RepoConfig)
    settings = load_settings(None, {"DRYDOCK_TTL_MINUTES": "2"})
    assert dock_limits(settings, config).ttl_s == ttl_s


def test_the_size_of_files_is_given_in_megabytes() -> None:
    rules = gate_rules(load_settings(None, {"DRYDOCK_MAX_FILE_MB": "0.5"}))
    assert rules.max_file_bytes == 500_000


def test_commits_are_by_us_and_the_requester_has_githubs_own_address() -> None:
    author = author_of(load_settings(None, {"DRYDOCK_COMMIT_NAME": "Yard"}))
    assert (author.name, author.email) == ("Yard", "drydock@noreply.invalid")
    assert requester_of("mona", 7).email == "7+mona@users.noreply.github.com"

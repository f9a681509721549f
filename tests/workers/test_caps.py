from __future__ import annotations

from app.repo_config import RepoConfig
from egress.meter import OverCap, first_reached
from workers.caps import repository_cap


def test_a_repositorys_own_budget_is_a_cap_that_a_maintainer_raises() -> None:
    (cap,) = repository_cap(RepoConfig.model_validate({"budget_usd": 2.5}))
    assert cap.limit_usd == 2.5
    text = OverCap(2.5, cap).text
    assert "spending cap for a run here is reached" in text
    assert "A maintainer can raise budget_usd in .github/drydock.yml." in text


def test_without_one_there_is_no_such_cap() -> None:
    assert repository_cap(RepoConfig.model_validate({})) == ()


def test_what_lost_attempts_spent_counts_against_a_repositorys_own_budget() -> None:
    (cap,) = repository_cap(RepoConfig.model_validate({"budget_usd": 2.5}), 2.5)
    assert first_reached((cap,)) is not None
    assert first_reached(repository_cap(RepoConfig.model_validate({"budget_usd": 2.5}))) is None

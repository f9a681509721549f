from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.config_limits import Limits, excesses_of, limits_of, parse_within
from app.repo_config import ConfigError, RepoConfig
from app.settings import load_settings

LIMITS = Limits(
    models=("openai/big", "openai/small"),
    ttl_s=3600,
    budget_usd=5,
    permission="write",
    templates=("default", "node"),
)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "model: openai/small",
        "ttl: 60",
        "budget_usd: 5",
        "template: node",
        "attempts: 1",
        "allow: write",
        "allow: admin",
        "allow: acme/crew",
    ],
)
def test_what_is_within_the_operators_limits_is_taken(text: str) -> None:
    assert isinstance(parse_within(text.encode(), LIMITS), RepoConfig)


@pytest.mark.parametrize(
    ("text", "words", "nearest"),
    [
        ("model: openai/smal", "model can be one of: openai/big, openai/small", "openai/small"),
        ("ttl: 61", "ttl can be 60 minutes at most here (DRYDOCK_TTL_MINUTES)", None),
        ("budget_usd: 5.01", "budget_usd can be 5 at most here (DRYDOCK_BUDGET_USD)", None),
        ("template: nodes", "template can be one of: default, node", "node"),
        ("attempts: 2", "attempts can be 1 at most here", None),
        ("allow: triage", "allow can be write or more here", "write"),
    ],
)
def test_what_asks_for_more_is_refused_with_its_line(
    text: str, words: str, nearest: str | None
) -> None:
    error = parse_within(f"# ours\n{text}\n".encode(), LIMITS)
    assert isinstance(error, ConfigError)
    assert words in error.reason
    assert (error.line, error.nearest) == (2, nearest)


def test_all_that_asks_for_too_much_is_told_but_not_of_a_file_that_is_wrong() -> None:
    assert [each.line for each in excesses_of(b"ttl: 61\nbudget_usd: 9\n", LIMITS)] == [1, 2]
    assert excesses_of(b"ttl: 61\nbudget: 9\n", LIMITS) == ()
    assert parse_within(b"budget: 9\n", LIMITS) == ConfigError(
        "unknown key budget", 1, "budget_usd"
    )


def test_a_template_is_not_judged_where_nobody_knows_which_there_are() -> None:
    unknown = Limits(models=(), ttl_s=60, budget_usd=1, permission="write")
    assert isinstance(parse_within(b"template: any\n", unknown), RepoConfig)


def test_the_limits_are_the_operators_settings() -> None:
    env = {"DRYDOCK_MODEL": "openai/a", "DRYDOCK_MODELS": "openai/b", "DRYDOCK_TTL_MINUTES": "5"}
    limits = limits_of(load_settings(None, env), ("default",))
    assert limits == Limits(("openai/a", "openai/b"), 300, 5.0, "write", ("default",))
    lowered = limits_of(load_settings(None, {**env, "DRYDOCK_ALLOW_TRIAGE": "true"}))
    assert lowered.permission == "triage"


@given(
    st.floats(0.1, 1440),
    st.floats(0.01, 100),
    st.sampled_from(["a", "b", "c"]),
)
def test_whatever_is_taken_is_never_beyond_the_limits(
    minutes: float, budget: float, model: str
) -> None:
    limits = Limits(models=("a", "b"), ttl_s=1800, budget_usd=3, permission="write")
    text = f"ttl: {minutes:f}\nbudget_usd: {budget:f}\nmodel: {model}\n"
    config = parse_within(text.encode(), limits)
    if isinstance(config, RepoConfig):
        assert config.ttl is not None
        assert config.ttl <= limits.ttl_s
        assert config.budget_usd is not None
        assert config.budget_usd <= limits.budget_usd
        assert config.model in limits.models

"""The model of a run: where it is reached, with which credential, and at which price."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from app.settings import Settings, SettingsError, require_model, system_ca_bundle
from egress.inject import BadCredential, Credential
from egress.meter import BadPrices, Price, load_entry, load_prices
from egress.routes import ModelRoute, UnsupportedModel, model_route

_PER_MTOK = 1_000_000


@dataclass(frozen=True)
class ModelChoice:
    """`metadata` is LiteLLM's entry for the model with the operator's overrides, for Aider."""

    name: str
    route: ModelRoute
    credentials: Mapping[str, Credential] = field(repr=False)
    prices: Mapping[str, Price] = field(repr=False)
    metadata: Mapping[str, Any] | None
    edit_format: str
    budget_usd: float
    upstream_ca: str | None


def choose_model(settings: Settings, prices: Path, model: str | None = None) -> ModelChoice:
    """Build the choice from the operator's settings. SettingsError says what to set instead.

    `model` is what a command asked for among the operator's models: same server, same key.
    """
    if model is not None:
        settings = settings.model_copy(update={"model": model})
    route, credentials = reach_model(settings)
    name = require_model(settings).model
    try:
        table = load_prices(prices, price_overrides(settings))
        metadata = metadata_of(name, prices, settings)
    except BadPrices as error:
        raise SettingsError((str(error),)) from error
    bundle = system_ca_bundle(settings)
    return ModelChoice(
        name=name,
        route=route,
        credentials=credentials,
        prices=table,
        metadata=metadata,
        edit_format=settings.model_edit_format,
        budget_usd=settings.budget_usd,
        upstream_ca=str(bundle) if bundle is not None else None,
    )


def reach_model(settings: Settings) -> tuple[ModelRoute, Mapping[str, Credential]]:
    """Return how the model is reached; needs no template. SettingsError says what to set."""
    wanted = require_model(settings)
    key = wanted.api_key.get_secret_value() if wanted.api_key else None
    try:
        route = model_route(
            wanted.model,
            wanted.api_base,
            settings.plain_http_hosts,
            weak_model=settings.weak_model,
            with_key=key is not None,
            api_version=settings.model_api_version,
        )
        return route, {route.provider: route.credential(key)} if key is not None else {}
    except (UnsupportedModel, BadCredential) as error:
        raise SettingsError((str(error),)) from error


def price_overrides(settings: Settings) -> dict[str, dict[str, float]]:
    """Return the operator's prices in LiteLLM's keys: US dollars per token."""
    given = (settings.model_input_usd_per_mtok, settings.model_output_usd_per_mtok)
    if settings.model is None or given[0] is None or given[1] is None:
        return {}
    prices = {
        "input_cost_per_token": given[0] / _PER_MTOK,
        "output_cost_per_token": given[1] / _PER_MTOK,
    }
    names = {settings.model, settings.weak_model or settings.model}
    return {name: dict(prices) for name in names}


def metadata_of(model: str, prices: Path, settings: Settings) -> dict[str, Any] | None:
    """Return what Aider is told of the model; None when neither table nor operator knows it."""
    entry = load_entry(prices, model, model.partition("/")[2])
    sizes = {
        "max_input_tokens": settings.model_max_input_tokens,
        "max_output_tokens": settings.model_max_output_tokens,
    }
    known = {name: value for name, value in sizes.items() if value is not None}
    merged = {**entry, **known, **price_overrides(settings).get(model, {})}
    return merged or None

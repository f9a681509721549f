"""Apps, installations, tokens and deliveries in JSON."""

from __future__ import annotations

import json

from demo.github.clock import stamp, stamp_or_none
from demo.github.records import App, Delivery, Installation, Repo, Token
from demo.github.shapes import accounts, repos
from demo.github.shapes.view import Json, View, node_id


def app(view: View, record: App) -> Json:
    """Return GitHub's `integration`."""
    return {
        "id": record.id,
        "slug": record.slug,
        "client_id": record.client_id,
        "node_id": node_id("A", record.id),
        "owner": accounts.user(view, record.owner),
        "name": record.name,
        "description": record.description,
        "external_url": record.external_url,
        "html_url": view.web(f"/apps/{record.slug}"),
        "created_at": stamp(record.created_at),
        "updated_at": stamp(record.created_at),
        "permissions": record.permissions,
        "events": list(record.events),
    }


def own_app(view: View, record: App) -> Json:
    """Return the App as it sees itself."""
    count = len(view.world.installations_of(record))
    return {**app(view, record), "installations_count": count}


def installation(view: View, record: Installation) -> Json:
    api = view.api(f"/app/installations/{record.id}")
    return {
        "id": record.id,
        "client_id": record.app.client_id,
        "account": accounts.user(view, record.account),
        "repository_selection": _selection(record.repository_ids),
        "access_tokens_url": f"{api}/access_tokens",
        "repositories_url": view.api("/installation/repositories"),
        "html_url": view.web(f"/settings/installations/{record.id}"),
        "app_id": record.app.id,
        "app_slug": record.app.slug,
        "target_id": record.account.id,
        "target_type": record.account.kind,
        "permissions": record.permissions,
        "events": list(record.events),
        "created_at": stamp(record.created_at),
        "updated_at": stamp(record.updated_at),
        "single_file_name": None,
        "has_multiple_single_files": False,
        "single_file_paths": [],
        "suspended_by": accounts.user_or_null(view, record.suspended_by),
        "suspended_at": stamp_or_none(record.suspended_at),
    }


def token(view: View, record: Token, covered: list[Repo]) -> Json:
    """Return a fresh `installation-token`; `covered` is what it reaches, named unless it is all."""
    narrowed = record.repository_ids is not None
    ids = record.repository_ids if narrowed or not record.installation else (
        record.installation.repository_ids)  # fmt: skip
    shape: Json = {
        "token": record.value,
        "expires_at": stamp(record.expires_at or 0),
        "permissions": record.permissions,
        "repository_selection": _selection(ids),
    }
    if narrowed:
        shape["repositories"] = [repos.repository(view, repo) for repo in covered]
    return shape


def _selection(ids: set[int] | frozenset[int] | None) -> str:
    return "all" if ids is None else "selected"


def hook_config(record: App) -> Json:
    """Return the App's webhook settings, the secret masked."""
    config = {"content_type": "json", "insecure_ssl": "0", "url": record.webhook_url or ""}
    return {**config, "secret": "********"} if record.webhook_secret else config


def delivery_item(record: Delivery) -> Json:
    return {
        "id": record.id,
        "guid": record.guid,
        "delivered_at": stamp(record.created_at),
        "redelivery": record.redelivery,
        "duration": record.duration,
        "status": record.status,
        "status_code": record.status_code,
        "event": record.event,
        "action": record.action,
        "installation_id": record.installation_id,
        "repository_id": record.repository_id,
        "throttled_at": None,
    }


def delivery(record: Delivery) -> Json:
    """Return a delivery with what was sent and what came back."""
    return {
        **delivery_item(record),
        "url": record.url,
        "request": {"headers": record.request_headers, "payload": json.loads(record.body)},
        "response": {"headers": record.response_headers, "payload": record.response_body},
    }

"""The App manifest flow: a form becomes a code, and the code becomes an App.

See https://docs.github.com/apps/sharing-github-apps/registering-a-github-app-from-a-manifest
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from typing import Any

from demo.github.acts.installs import NewApp, register_app
from demo.github.errors import ApiError, not_found
from demo.github.records import App, User
from demo.github.world import World

CODE_LIFE_S = 3600


def read(manifest_text: str) -> dict[str, Any]:
    """Return a manifest. ApiError 422 when it is none."""
    try:
        manifest = json.loads(manifest_text)
    except ValueError:
        raise ApiError(422, "Invalid manifest: it is not JSON.") from None
    if not isinstance(manifest, dict) or not isinstance(manifest.get("url"), str):
        raise ApiError(422, 'Invalid manifest: "url" wasn\'t supplied.')
    return manifest


def accept(world: World, owner: User, manifest_text: str) -> tuple[str, Mapping[str, Any]]:
    """Remember a manifest and return its code. ApiError 422 when it is no manifest."""
    manifest = read(manifest_text)
    code = secrets.token_hex(20)
    with world.lock:
        world.manifests[code] = (world.now(), {**manifest, "owner": owner.login})
    return code, manifest


def convert(world: World, code: str) -> tuple[App, str]:
    """Register the App of a code, with a webhook secret of GitHub's making.

    ApiError 404 when the code is unknown, used or older than an hour; 422 for its contents.
    """
    with world.lock:
        found = world.manifests.pop(code, None)
    if found is None or found[0] + CODE_LIFE_S <= world.now():
        raise not_found()
    manifest: dict[str, Any] = found[1]
    hook = manifest.get("hook_attributes") or {}
    url = hook.get("url") if hook.get("active", True) else None
    new = NewApp(
        name=manifest.get("name") or f"app-{code[:8]}",
        permissions=manifest.get("default_permissions") or {},
        events=tuple(manifest.get("default_events") or ()),
        webhook_url=url,
        webhook_secret=world.random_secret() if url else None,
        external_url=manifest["url"],
        description=manifest.get("description") or "",
        setup_url=manifest.get("setup_url"),
    )
    try:
        return register_app(world, world.user(manifest["owner"]), new)
    except ValueError as error:
        raise ApiError(422, f"Invalid manifest: {error}") from None

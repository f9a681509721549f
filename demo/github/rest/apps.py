"""Apps, installations, their tokens, and their webhook deliveries."""

from __future__ import annotations

from typing import Any

from demo.github.access import require_app, require_installation
from demo.github.acts.installs import Narrowing, covered_repositories, mint_token
from demo.github.errors import ApiError, bad_credentials, invalid_request, not_found
from demo.github.manifests import convert
from demo.github.records import Delivery, Installation
from demo.github.rest.call import Call
from demo.github.rest.paging import counted, page
from demo.github.rest.routing import Answer, created, no_content, route
from demo.github.shapes import apps as shapes
from demo.github.shapes import repos as repo_shapes


@route("GET", "/app")
def get_app(call: Call) -> Any:
    return shapes.own_app(call.view, require_app(call.principal))


@route("GET", "/app/installations")
def list_installations(call: Call) -> Any:
    found = call.world.installations_of(require_app(call.principal))
    return page(call, found, lambda one: shapes.installation(call.view, one))


@route("GET", "/app/installations/{installation_id}")
def get_installation(call: Call) -> Any:
    return shapes.installation(call.view, _installation(call))


def _installation(call: Call) -> Installation:
    app = require_app(call.principal)
    found = call.world.installations.get(call.args["installation_id"])
    if found is None or found.app is not app:
        raise not_found()
    return found


@route("POST", "/app/installations/{installation_id}/access_tokens")
def create_token(call: Call) -> Any:
    token = mint_token(call.world, _installation(call), _narrowing(call))
    covered = (
        [] if token.installation is None else covered_repositories(call.world, token.installation)
    )
    if token.repository_ids is not None:
        covered = [repo for repo in covered if repo.id in token.repository_ids]
    return created(shapes.token(call.view, token, covered))


def _narrowing(call: Call) -> Narrowing:
    ids = call.body.get("repository_ids")
    if ids is not None and not _are_numbers(ids):
        raise invalid_request("For 'properties/repository_ids', the value is not an array.")
    permissions = call.body.get("permissions")
    if permissions is not None and not isinstance(permissions, dict):
        raise invalid_request("For 'properties/permissions', the value is not an object.")
    names = frozenset(call.texts("repositories")) if "repositories" in call.body else None
    return Narrowing(None if ids is None else frozenset(ids), names, permissions)


def _are_numbers(values: object) -> bool:
    return isinstance(values, list) and all(type(value) is int for value in values)


@route("DELETE", "/installation/token")
def revoke_token(call: Call) -> Any:
    token = call.principal.token
    if token is None or token.installation is None:
        raise bad_credentials()
    token.revoked = True
    return no_content()


@route("GET", "/installation/repositories")
def list_repositories(call: Call) -> Any:
    installation = require_installation(call.principal)
    found = [r for r in covered_repositories(call.world, installation) if call.principal.covers(r)]
    selection = "all" if installation.repository_ids is None else "selected"
    return counted(
        call,
        found,
        lambda repo: repo_shapes.repository(call.view, repo),
        "repositories",
        repository_selection=selection,
    )


@route("GET", "/repos/{owner}/{repo}/installation")
def get_repo_installation(call: Call) -> Any:
    found = call.world.installation_on(require_app(call.principal), call.repo)
    if found is None:
        raise not_found()
    return shapes.installation(call.view, found)


@route("GET", "/apps/{app_slug}")
def get_app_by_slug(call: Call) -> Any:
    found = call.world.app_by_slug(call.args["app_slug"])
    if found is None:
        raise not_found()
    return shapes.app(call.view, found)


@route("POST", "/app-manifests/{code}/conversions")
def convert_manifest(call: Call) -> Any:
    """Turn the code of the manifest flow into an App: once, within the hour."""
    app, private_key = convert(call.world, call.args["code"])
    secrets = {
        "client_secret": call.world.random_secret(),
        "webhook_secret": app.webhook_secret,
        "pem": private_key,
    }
    return created({**shapes.app(call.view, app), **secrets})


@route("GET", "/app/hook/config")
def get_hook_config(call: Call) -> Any:
    return shapes.hook_config(require_app(call.principal))


@route("PATCH", "/app/hook/config")
def update_hook_config(call: Call) -> Any:
    app = require_app(call.principal)
    app.webhook_url = call.text_or_none("url") or app.webhook_url
    app.webhook_secret = call.text_or_none("secret") or app.webhook_secret
    return shapes.hook_config(app)


@route("GET", "/app/hook/deliveries")
def list_deliveries(call: Call) -> Any:
    """List deliveries, newest first; `cursor` is the id to go on below."""
    done = [one for one in call.world.courier.of_app(require_app(call.principal)) if one.delivered]
    newest = sorted(done, key=lambda one: one.id, reverse=True)
    cursor = call.query("cursor")
    below = [one for one in newest if not cursor or one.id < _cursor(cursor)]
    size = min(max(int(call.query("per_page", "30")), 1), 100)
    shown = below[:size]
    headers = {}
    if len(below) > size:
        address = f"{call.request.base_url}?per_page={size}&cursor={shown[-1].id}"
        headers = {"Link": f'<{address}>; rel="next"'}
    return Answer(200, [shapes.delivery_item(one) for one in shown], headers)


def _cursor(text: str) -> int:
    if not text.isdigit():
        raise ApiError(400, "Invalid cursor")
    return int(text)


@route("GET", "/app/hook/deliveries/{delivery_id}")
def get_delivery(call: Call) -> Any:
    return shapes.delivery(_delivery(call))


@route("POST", "/app/hook/deliveries/{delivery_id}/attempts")
def redeliver(call: Call) -> Any:
    call.world.courier.redeliver(_delivery(call))
    return Answer(202, {})


def _delivery(call: Call) -> Delivery:
    own = call.world.courier.of_app(require_app(call.principal))
    found: Delivery = call.pick(own, "delivery_id")
    return found

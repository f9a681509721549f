"""Who may do what: JWTs, tokens, permissions, repository scope, limits."""

from __future__ import annotations

import jwt
import pytest

from tests.demo.github.conftest import Client, Scene

COMMENTS = "/repos/acme/widgets/issues/1/comments"


def message(answer: object) -> str:
    return str(answer.json()["message"])  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("claims", "sentence"),
    [
        ({"exp": 1_800_000_601}, "'Expiration time' claim ('exp') is too far in the future"),
        ({"exp": 1_799_999_999}, "'Expiration time' claim ('exp') must be a numeric value"),
        ({"iat": 1_800_000_001}, "'Issued at' claim ('iat') must be an Integer"),
    ],
)
def test_a_jwt_outside_githubs_times_is_refused(
    scene: Scene, claims: dict[str, int], sentence: str
) -> None:
    answer = scene.as_app(**claims)("GET", "/app")
    assert answer.status_code == 401
    assert message(answer).startswith(sentence)


def test_a_jwt_signed_by_another_key_is_refused(scene: Scene) -> None:
    other = scene.gh.create_app("other")
    claims = {"iat": 1_799_999_990, "exp": 1_800_000_300, "iss": str(scene.app.app_id)}
    forged = jwt.encode(claims, other.private_key_pem, algorithm="RS256")
    answer = Client(scene.gh.api_url, forged)("GET", "/app")
    assert (answer.status_code, message(answer)) == (401, "A JSON web token could not be decoded")


def test_a_symmetric_or_unsigned_jwt_is_refused(scene: Scene) -> None:
    claims = {"iat": 1_799_999_990, "exp": 1_800_000_300, "iss": str(scene.app.app_id)}
    for encoded in (
        jwt.encode(claims, "k" * 40, algorithm="HS256"),
        jwt.encode(claims, "", algorithm="none"),
    ):
        assert Client(scene.gh.api_url, encoded)("GET", "/app").status_code == 401


def test_an_unknown_issuer_is_no_integration(scene: Scene) -> None:
    answer = scene.as_app(iss="4711")("GET", "/app")
    assert (answer.status_code, message(answer)) == (404, "Integration not found")


def test_the_client_id_will_do_as_issuer(scene: Scene) -> None:
    assert scene.as_app(iss=scene.app.client_id)("GET", "/app").json()["slug"] == "drydock"


def test_a_jwt_opens_no_repository_and_a_token_no_app_route(scene: Scene) -> None:
    assert scene.as_app()("GET", "/repos/acme/widgets").status_code == 401
    assert scene.client()("GET", "/app").status_code == 401


def test_a_token_lives_one_hour(scene: Scene) -> None:
    client = scene.client()
    scene.clock.passes(3599)
    assert client("GET", "/repos/acme/widgets").status_code == 200
    scene.clock.passes(1)
    answer = client("GET", "/repos/acme/widgets")
    assert (answer.status_code, message(answer)) == (401, "Bad credentials")


def test_a_revoked_token_is_dead(scene: Scene) -> None:
    client = scene.client()
    assert client("DELETE", "/installation/token").status_code == 204
    assert client("GET", "/repos/acme/widgets").status_code == 401


def test_a_token_narrowed_to_a_repository_does_not_see_the_others(scene: Scene) -> None:
    gadgets = scene.gh.create_repo("acme", "gadgets", private=True)
    scene.gh.install(scene.app, gadgets)
    client = scene.client(repository_ids=[gadgets.id], permissions={"issues": "write"})
    assert client("GET", "/repos/acme/gadgets").status_code == 200
    assert client("GET", "/repos/acme/widgets").status_code == 404
    assert client("GET", f"/repositories/{scene.repo.id}").status_code == 404
    shown = client("GET", "/installation/repositories").json()
    assert [repo["name"] for repo in shown["repositories"]] == ["gadgets"]


def test_a_narrowed_token_writes_nothing_into_a_public_repository_out_of_its_scope(
    scene: Scene,
) -> None:
    public = scene.gh.create_repo("acme", "public", {"README.md": "x"})
    scene.alice.opens_issue(public, "Hello")
    client = scene.client()
    assert client("GET", "/repos/acme/public/issues/1").status_code == 200
    answer = client("POST", "/repos/acme/public/issues/1/comments", {"body": "hi"})
    assert (answer.status_code, message(answer)) == (
        403,
        "Resource not accessible by integration",
    )


@pytest.mark.parametrize(
    ("method", "path", "body", "needed"),
    [
        ("POST", COMMENTS, {"body": "hi"}, "issues"),
        ("POST", "/repos/acme/widgets/issues/1/labels", {"labels": ["x"]}, "issues"),
        ("POST", "/repos/acme/widgets/issues/1/reactions", {"content": "eyes"}, "issues"),
        ("PATCH", "/repos/acme/widgets/issues/1", {"title": "x"}, "issues"),
        ("POST", "/repos/acme/widgets/pulls", {"title": "x", "head": "y", "base": "main"},
         "pull_requests"),
        ("POST", "/repos/acme/widgets/check-runs", {"name": "x", "head_sha": "0" * 40}, "checks"),
        ("POST", "/repos/acme/widgets/git/blobs", {"content": "x"}, "contents"),
    ],
)  # fmt: skip
def test_writing_needs_the_permission_to_write(
    scene: Scene, method: str, path: str, body: dict[str, object], needed: str
) -> None:
    scene.alice.opens_issue(scene.repo, "Broken")
    everything = {"issues", "pull_requests", "checks", "contents"}
    others = dict.fromkeys(everything - {needed}, "write")
    for permissions in (others, {**others, needed: "read"}):
        answer = scene.client(permissions=permissions)(method, path, body)
        assert answer.status_code == 403
        assert message(answer) == "Resource not accessible by integration"
    enough = scene.client(permissions={needed: "write"})(method, path, body)
    assert enough.status_code in (200, 201, 422)


def test_on_pull_requests_either_permission_lets_one_comment(scene: Scene) -> None:
    scene.repo.commit({"a": "b"}, branch="fix")
    scene.alice.opens_pull(scene.repo, head="fix")
    for permission in ("issues", "pull_requests"):
        client = scene.client(permissions={permission: "write"})
        assert client("POST", COMMENTS, {"body": "hi"}).status_code == 201


def test_reading_a_private_repository_needs_the_permission_to_read(scene: Scene) -> None:
    scene.alice.opens_issue(scene.repo, "Broken")
    client = scene.client(permissions={"contents": "read"})
    assert client("GET", "/repos/acme/widgets/contents/calc.py").status_code == 200
    assert client("GET", "/repos/acme/widgets/issues/1").status_code == 403
    assert scene.anonymous()("GET", "/repos/acme/widgets").status_code == 404


def test_more_than_the_installation_has_cannot_be_asked_for(scene: Scene) -> None:
    installation = scene.gh.installation(scene.app, scene.repo)
    path = f"/app/installations/{installation.id}/access_tokens"
    outside = scene.gh.create_repo("acme", "outside")
    for asked, sentence in (
        ({"permissions": {"administration": "write"}}, "The permissions requested are not granted"),
        ({"repository_ids": [outside.id]}, "There is at least one repository that does not exist"),
        ({"repositories": ["outside"]}, "There is at least one repository that does not exist"),
    ):
        answer = scene.as_app()("POST", path, asked)
        assert answer.status_code == 422
        assert message(answer).startswith(sentence)


def test_a_suspended_installation_is_shut(scene: Scene) -> None:
    client = scene.client()
    installation = scene.gh.installation(scene.app, scene.repo)
    scene.gh.suspend(scene.app)
    path = f"/app/installations/{installation.id}/access_tokens"
    for answer in (scene.as_app()("POST", path), client("GET", "/repos/acme/widgets")):
        assert (answer.status_code, message(answer)) == (
            403,
            "This installation has been suspended",
        )
    scene.gh.unsuspend(scene.app)
    assert client("GET", "/repos/acme/widgets").status_code == 200


def test_after_uninstalling_tokens_are_dead_and_the_installation_gone(scene: Scene) -> None:
    client = scene.client()
    installation = scene.gh.installation(scene.app, scene.repo)
    scene.gh.uninstall(scene.app)
    assert client("GET", "/repos/acme/widgets").status_code == 401
    path = f"/app/installations/{installation.id}/access_tokens"
    assert scene.as_app()("POST", path).status_code == 404
    assert scene.as_app()("GET", "/repos/acme/widgets/installation").status_code == 404


def test_a_repository_taken_out_of_the_installation_disappears(scene: Scene) -> None:
    scene.gh.install(scene.app, scene.gh.create_repo("acme", "gadgets"))
    client = scene.client()
    scene.gh.uninstall(scene.app, scene.repo)
    assert client("GET", "/repos/acme/widgets").status_code == 404


def test_the_hours_requests_are_counted_and_end(scene: Scene) -> None:
    scene.gh.limits.authenticated = 2
    client = scene.client()
    first = client("GET", "/repos/acme/widgets")
    assert first.headers["X-RateLimit-Remaining"] == "1"
    client("GET", "/repos/acme/widgets")
    answer = client("GET", "/repos/acme/widgets")
    assert answer.status_code == 403
    assert message(answer).startswith("API rate limit exceeded for installation ID")
    assert answer.headers["X-RateLimit-Remaining"] == "0"
    scene.clock.passes(float(answer.headers["X-RateLimit-Reset"]) - scene.clock())
    assert client("GET", "/repos/acme/widgets").status_code == 401  # and the token is old by now
    assert scene.client()("GET", "/repos/acme/widgets").status_code == 200


@pytest.mark.parametrize(
    ("role", "permission"),
    [
        ("admin", "admin"),
        ("maintain", "write"),
        ("write", "write"),
        ("triage", "read"),
        ("read", "read"),
        ("none", "none"),
    ],
)
def test_a_role_is_told_by_its_own_and_its_old_name(
    scene: Scene, role: str, permission: str
) -> None:
    scene.gh.create_user("bob")
    scene.repo.grant("bob", role)
    shown = scene.client()("GET", "/repos/acme/widgets/collaborators/bob/permission").json()
    assert (shown["permission"], shown["role_name"]) == (permission, role)


def test_everybody_may_read_what_is_public_and_a_bot_has_no_role(scene: Scene) -> None:
    public = scene.gh.create_repo("acme", "public")
    scene.gh.install(scene.app, public)
    scene.gh.create_user("stranger")
    client, path = scene.client(), "/repos/acme/public/collaborators"
    assert client("GET", f"{path}/stranger/permission").json()["permission"] == "read"
    assert client("GET", f"{path}/stranger").status_code == 404
    assert client("GET", f"{path}/drydock[bot]/permission").status_code == 404
    scene.gh.delete_user("stranger")
    assert client("GET", f"{path}/stranger/permission").status_code == 404


def test_a_request_without_a_user_agent_is_turned_away(scene: Scene) -> None:
    from urllib.request import Request, urlopen

    request = Request(f"{scene.gh.api_url}/meta", headers={"User-Agent": ""})  # noqa: S310
    with pytest.raises(OSError, match="403"):
        urlopen(request, timeout=10)  # noqa: S310


def test_a_manifests_code_works_once(scene: Scene) -> None:
    from tests.demo.github.test_contract import _manifest_code

    path = f"/app-manifests/{_manifest_code(scene)}/conversions"
    made = scene.anonymous()("POST", path)
    assert made.status_code == 201
    assert made.json()["pem"].startswith("-----BEGIN RSA PRIVATE KEY-----")
    assert scene.anonymous()("POST", path).status_code == 404

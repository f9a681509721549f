"""Every route that the local GitHub serves, walked once and held against GitHub's description."""

from __future__ import annotations

from typing import Any

import pytest
import requests

from demo.github.contract import Contract
from demo.github.rest.routing import ROUTES
from tests.demo.github.conftest import Client, Scene


class Walk:
    """Does everything there is to do through the API, as an App would."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.app = scene.as_app()
        self.api = scene.client()
        self.repo = f"/repos/{scene.repo.full_name}"

    def do(self, method: str, path: str, body: Any = None, *, by: Client | None = None) -> Any:
        answer = (by or self.api)(method, path, body)
        assert answer.status_code < 400, f"{method} {path}: {answer.status_code} {answer.text}"
        return answer.json() if answer.content else None

    def on_repo(self, method: str, path: str, body: Any = None) -> Any:
        return self.do(method, self.repo + path, body)

    def everything(self) -> None:
        self.the_app()
        self.the_repository()
        self.git_objects()
        issue = self.issues()
        self.labels(issue)
        self.comments(issue)
        pull = self.pulls()
        self.reviews(pull)
        self.checks()
        self.the_end(pull)

    def the_app(self) -> None:
        scene = self.scene
        installation = scene.gh.installation(scene.app, scene.repo).id
        for path in ("/app", "/app/installations", f"/app/installations/{installation}",
                     f"{self.repo}/installation", "/app/hook/config"):  # fmt: skip
            self.do("GET", path, by=self.app)
        scene.gh.set_webhook(scene.app, "http://127.0.0.1:9/", "a secret of the test")
        scene.gh.wait_for_deliveries()
        self.do("PATCH", "/app/hook/config", {"url": "http://127.0.0.1:9/hook"}, by=self.app)
        (delivery,) = self.do("GET", "/app/hook/deliveries", by=self.app)
        self.do("GET", f"/app/hook/deliveries/{delivery['id']}", by=self.app)
        self.do("POST", f"/app/hook/deliveries/{delivery['id']}/attempts", by=self.app)
        scene.gh.set_webhook(scene.app, None)
        self.do("GET", "/installation/repositories")
        self.do("GET", "/apps/drydock")
        self.do("POST", f"/app-manifests/{_manifest_code(scene)}/conversions", by=self.app)

    def the_repository(self) -> None:
        for path in ("", "/collaborators/alice/permission", "/collaborators/alice", "/branches",
                     "/branches/main", "/commits", "/commits/main", "/contents/calc.py",
                     "/contents/", "/contents"):  # fmt: skip
            self.on_repo("GET", path)
        self.do("GET", f"/repositories/{self.scene.repo.id}")
        self.do("GET", "/users/alice")
        self.do("GET", "/rate_limit")
        self.do("GET", "/meta")
        self.do("GET", "/user", by=Client(self.scene.gh.api_url, self.scene.alice.token()))

    def git_objects(self) -> None:
        head = self.on_repo("GET", "/git/ref/heads/main")["object"]["sha"]
        base = self.on_repo("GET", f"/git/commits/{head}")
        blob = self.on_repo("POST", "/git/blobs", {"content": "eA==", "encoding": "base64"})
        self.on_repo("GET", f"/git/blobs/{blob['sha']}")
        calc = "def add(a, b):\n    return a + b\n"
        entries = [
            {"path": "x.txt", "mode": "100644", "type": "blob", "sha": blob["sha"]},
            {"path": "calc.py", "mode": "100644", "type": "blob", "content": calc},
        ]
        sent = {"base_tree": base["tree"]["sha"], "tree": entries}
        tree = self.on_repo("POST", "/git/trees", sent)
        self.on_repo("GET", f"/git/trees/{tree['sha']}?recursive=1")
        commit = {"message": "Add properly", "tree": tree["sha"], "parents": [head]}
        made = self.on_repo("POST", "/git/commits", commit)
        ref = {"ref": "refs/heads/aider/issue-1", "sha": head}
        self.on_repo("POST", "/git/refs", ref)
        self.on_repo("PATCH", "/git/refs/heads/aider/issue-1", {"sha": made["sha"]})
        self.on_repo("GET", "/git/matching-refs/heads/aider")
        self.on_repo("GET", "/branches/aider/issue-1")
        self.on_repo("GET", "/compare/main...aider/issue-1")
        self.on_repo("GET", "/contents/calc.py?ref=aider/issue-1")

    def issues(self) -> int:
        sent = {"title": "It subtracts", "body": "add(1, 1) is 0", "assignees": ["alice"]}
        number = int(self.on_repo("POST", "/issues", sent)["number"])
        self.on_repo("GET", "/issues?state=all&since=2020-01-01T00:00:00Z")
        self.on_repo("GET", f"/issues/{number}")
        self.on_repo(
            "PATCH", f"/issues/{number}", {"state": "closed", "state_reason": "not_planned"}
        )
        self.on_repo("PATCH", f"/issues/{number}", {"state": "open", "body": "again"})
        people = {"assignees": ["alice"]}
        self.on_repo("DELETE", f"/issues/{number}/assignees", people)
        self.on_repo("POST", f"/issues/{number}/assignees", people)
        self.on_repo("PUT", f"/issues/{number}/lock", {"lock_reason": "resolved"})
        self.on_repo("DELETE", f"/issues/{number}/lock")
        self.reactions(f"/issues/{number}")
        return number

    def reactions(self, path: str) -> None:
        made = self.on_repo("POST", f"{path}/reactions", {"content": "eyes"})
        again = self.on_repo("POST", f"{path}/reactions", {"content": "eyes"})
        assert again["id"] == made["id"]
        self.on_repo("GET", f"{path}/reactions")
        self.on_repo("DELETE", f"{path}/reactions/{made['id']}")

    def labels(self, issue: int) -> None:
        self.on_repo("POST", "/labels", {"name": "a/b", "color": "ff0000", "description": "odd"})
        self.on_repo("GET", "/labels")
        self.on_repo("GET", "/labels/a%2Fb")
        self.on_repo("POST", f"/issues/{issue}/labels", {"labels": ["a/b", "bug"]})
        self.on_repo("GET", f"/issues/{issue}/labels")
        self.on_repo("PUT", f"/issues/{issue}/labels", {"labels": ["a/b", "help"]})
        self.on_repo("DELETE", f"/issues/{issue}/labels/a%2Fb")

    def comments(self, issue: int) -> None:
        made = self.on_repo("POST", f"/issues/{issue}/comments", {"body": "Working on it"})
        path = f"/issues/comments/{made['id']}"
        self.on_repo("GET", f"/issues/{issue}/comments")
        self.on_repo("GET", "/issues/comments")
        self.on_repo("GET", path)
        self.on_repo("PATCH", path, {"body": "Done"})
        self.reactions(path)
        self.on_repo("DELETE", path)

    def pulls(self) -> int:
        sent = {
            "title": "Add",
            "head": "aider/issue-1",
            "base": "main",
            "body": "Fixes #1",
            "draft": True,
        }
        number = int(self.on_repo("POST", "/pulls", sent)["number"])
        self.on_repo("GET", "/pulls?head=acme:aider/issue-1&base=main&state=all")
        self.on_repo("GET", f"/pulls/{number}")
        self.on_repo("PATCH", f"/pulls/{number}", {"title": "Add, at last", "state": "open"})
        self.on_repo("GET", f"/pulls/{number}/files")
        self.on_repo("GET", f"/pulls/{number}/commits")
        people = {"reviewers": ["alice"]}
        self.on_repo("POST", f"/pulls/{number}/requested_reviewers", people)
        self.on_repo("GET", f"/pulls/{number}/requested_reviewers")
        self.on_repo("DELETE", f"/pulls/{number}/requested_reviewers", people)
        self.teams(f"/pulls/{number}/requested_reviewers")
        self.on_repo("GET", f"/issues/{number}")
        self.on_repo("GET", f"/commits/{self.head(number)}/pulls")
        return number

    def teams(self, requested: str) -> None:
        gh, repo = self.scene.gh, self.scene.repo
        gh.create_team("acme", "Crew", "alice").grant(repo, "write")
        gh.accept_permissions(self.scene.app, repo, members="read")
        self.do("GET", "/orgs/acme/teams/crew/memberships/alice", by=self.scene.client())
        body = {"reviewers": [], "team_reviewers": ["crew"]}
        path = f"/repos/{repo.full_name}{requested}"
        for method in ("POST", "GET", "DELETE"):
            sent = None if method == "GET" else body
            self.do(method, path, sent, by=self.scene.client())

    def head(self, number: int) -> str:
        return str(self.on_repo("GET", f"/pulls/{number}")["head"]["sha"])

    def reviews(self, number: int) -> None:
        pull = f"/pulls/{number}"
        remarks = [{"path": "calc.py", "body": "why?", "line": 2, "side": "RIGHT"}]
        review = self.on_repo("POST", f"{pull}/reviews", {"body": "Hm", "comments": remarks})
        path = f"{pull}/reviews/{review['id']}"
        self.on_repo("GET", path)
        self.on_repo("POST", f"{path}/events", {"event": "COMMENT"})
        (comment,) = self.on_repo("GET", f"{path}/comments")
        self.on_repo("GET", f"{pull}/reviews")
        person = self.scene.alice
        verdict = person.reviews(self.scene.repo.pulls[0], "REQUEST_CHANGES", "No")
        self.on_repo("PUT", f"{pull}/reviews/{verdict.id}/dismissals", {"message": "Settled"})
        self.on_repo("POST", f"{pull}/comments/{comment['id']}/replies", {"body": "because"})
        place = {"path": "calc.py", "position": 2, "commit_id": self.head(number)}
        single = self.on_repo("POST", f"{pull}/comments", {"body": "here", **place})
        self.on_repo("GET", f"{pull}/comments")
        self.on_repo("GET", "/pulls/comments")
        self.on_repo("GET", f"/pulls/comments/{single['id']}")
        self.on_repo("PATCH", f"/pulls/comments/{single['id']}", {"body": "there"})
        self.reactions(f"/pulls/comments/{single['id']}")
        self.on_repo("DELETE", f"/pulls/comments/{single['id']}")

    def checks(self) -> None:
        sha = self.scene.repo.pulls[0].head_sha
        note = {
            "path": "calc.py", "start_line": 1, "end_line": 1, "annotation_level": "notice",
            "message": "look",
        }  # fmt: skip
        button = {"label": "Retry", "description": "Once more", "identifier": "retry"}
        sent = {
            "name": "drydock", "head_sha": sha, "status": "in_progress", "external_id": "7",
            "output": {"title": "Working", "summary": "…", "annotations": [note]},
            "actions": [button],
        }  # fmt: skip
        run = self.on_repo("POST", "/check-runs", sent)
        path = f"/check-runs/{run['id']}"
        self.on_repo("PATCH", path, {"status": "completed", "conclusion": "success"})
        self.on_repo("GET", path)
        self.on_repo("GET", f"{path}/annotations")
        self.on_repo("GET", "/commits/aider/issue-1/check-runs")
        (suite,) = self.on_repo("GET", f"/commits/{sha}/check-suites")["check_suites"]
        self.on_repo("GET", f"/check-suites/{suite['id']}")
        self.on_repo("GET", f"/check-suites/{suite['id']}/check-runs")
        self.logs(sha)

    def logs(self, sha: str) -> None:
        gh, repo = self.scene.gh, self.scene.repo
        actions = gh.create_app("github-actions")
        gh.install(actions, repo)
        job = gh.report_check(
            actions, repo, sha, name="build", conclusion="failure", log=b"it broke\n"
        )
        gh.accept_permissions(self.scene.app, repo, actions="read")
        self.api = self.scene.client()
        answer = self.api("GET", f"{self.repo}/actions/jobs/{job.id}/logs")
        assert (answer.status_code, answer.content) == (302, b"")
        address = answer.headers["Location"]
        assert requests.get(address, timeout=30).content == b"it broke\n"

    def the_end(self, number: int) -> None:
        self.scene.alice.marks_ready(self.scene.repo.pulls[0])
        self.on_repo("PUT", f"/pulls/{number}/merge", {"merge_method": "merge"})
        self.on_repo("DELETE", "/git/refs/heads/aider/issue-1")
        self.do("DELETE", "/installation/token")


def _manifest_code(scene: Scene) -> str:
    import json

    from demo.github import manifests

    manifest = {
        "name": "From a manifest",
        "url": "http://127.0.0.1:1/",
        "hook_attributes": {"url": "http://127.0.0.1:9/"},
        "default_permissions": {"issues": "write"},
        "default_events": ["issues"],
    }
    code, _ = manifests.accept(scene.gh.world, scene.alice.user, json.dumps(manifest))
    return code


@pytest.fixture
def walked(scene: Scene) -> Scene:
    Walk(scene).everything()
    return scene


def test_every_request_and_answer_is_what_githubs_description_allows(
    walked: Scene, contract: Contract
) -> None:
    found = contract.violations(walked.gh.recorder.exchanges)
    assert not found, "\n".join(found)


def test_the_walk_leaves_no_route_out(walked: Scene) -> None:
    # 302 is how a log is given; a repository that moved is 301 or 307.
    kept = [e for e in walked.gh.recorder.exchanges if e.status < 300 or e.status == 302]
    done = {(e.method, e.template) for e in kept}
    served = {(route.method, route.template) for route in ROUTES}
    assert served - done == set()


def test_a_wrong_answer_is_noticed(walked: Scene, contract: Contract) -> None:
    from dataclasses import replace

    good = next(e for e in walked.gh.recorder.exchanges if e.template.endswith("/issues"))
    assert contract.violations([replace(good, response_body=b'{"id": 1}')])
    assert contract.violations([replace(good, request_body=b'{"title": []}')])
    assert contract.violations([replace(good, status=500)])

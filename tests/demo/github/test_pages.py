"""The pages show what happened, and nothing that was written becomes markup."""

from __future__ import annotations

import re

import pytest
import requests

from demo.github.web.markdown import render
from tests.demo.github.conftest import Scene


def get(scene: Scene, path: str, status: int = 200) -> str:
    answer = requests.get(scene.gh.url + path, timeout=10)
    assert answer.status_code == status, answer.text
    return answer.text


def test_an_issue_is_shown_with_its_whole_story(scene: Scene) -> None:
    issue = scene.alice.opens_issue(scene.repo, "It <subtracts>", "**add** is wrong")
    scene.alice.labels(issue, "aider")
    comment = scene.alice.comments(issue, "Hello <!-- hidden --> there")
    scene.alice.reacts(comment, "eyes")
    scene.alice.closes(issue)
    page = get(scene, "/acme/widgets/issues/1")
    assert "It &lt;subtracts&gt;" in page
    assert "<strong>add</strong> is wrong" in page
    assert "hidden" not in page
    assert "👀 1" in page
    assert re.search(r"added the label.*closed this", page, re.DOTALL)


def test_a_pull_request_has_four_pages(scene: Scene) -> None:
    issue = scene.alice.opens_issue(scene.repo, "It subtracts")
    scene.repo.commit({"calc.py": "def add(a, b):\n    return a + b\n"}, branch="fix")
    pull = scene.alice.opens_pull(
        scene.repo, head="fix", title="Add", body=f"Fixes #{issue.number}", draft=True
    )
    scene.alice.comments_on_line(pull, "calc.py", 2, "Why not `sum`?")
    scene.alice.pushes(scene.repo, {"more.py": "x = 1\n"}, branch="fix", message="Add more")
    output = {"title": "All is well", "summary": "12 passed"}
    scene.gh.report_check(
        scene.app, scene.repo, pull.head_sha, name="drydock", conclusion="success", output=output
    )
    base = f"/acme/widgets/pull/{pull.number}"
    conversation = get(scene, base)
    assert "Draft" in conversation
    assert "Why not <code>sum</code>?" in conversation
    assert "All is well" in conversation
    assert "Closes <a" in conversation
    assert "Add more" in get(scene, f"{base}/commits")
    files = get(scene, f"{base}/files")
    assert re.search(
        r'class="del">.*?return a - b.*?class="add">.*?return a \+ b', files, re.DOTALL
    )
    assert "12 passed" in get(scene, f"{base}/checks")
    assert get(scene, f"{base}.diff").startswith("diff --git a/calc.py b/calc.py")


def test_every_other_page_is_there(scene: Scene) -> None:
    sha = scene.repo.git.heads()["main"]
    run = scene.gh.report_check(scene.app, scene.repo, sha, name="x")
    scene.gh.create_repo("acme", "empty")
    user = scene.alice.user.id
    shown = [
        "/", "/acme", "/acme/widgets", "/acme/empty", "/acme/widgets/issues",
        "/acme/widgets/pulls", f"/acme/widgets/commit/{sha}", f"/acme/widgets/runs/{run.id}",
        "/acme/widgets/blob/main/calc.py", "/acme/widgets/raw/main/calc.py", "/apps/drydock",
        "/style.css", "/apps/drydock/installations/new", f"/avatars/u/{user}",
    ]  # fmt: skip
    missing = [
        "/nobody/nothing", "/acme/widgets/issues/9", "/acme/widgets/pull/9",
        "/acme/widgets/commit/zzz", "/acme/widgets/blob/main/none", "/apps/none",
    ]  # fmt: skip
    for path in shown:
        get(scene, path)
    for path in missing:
        get(scene, path, 404)


def test_an_app_is_made_and_installed_in_the_browser(scene: Scene) -> None:
    import json

    manifest = json.dumps({
        "name": "Docked", "url": "http://127.0.0.1:1/", "redirect_url": "http://127.0.0.1:1/setup",
        "setup_url": "http://127.0.0.1:1/installed", "default_permissions": {"issues": "write"},
        "default_events": ["issues"],
    })  # fmt: skip
    new = requests.post(
        f"{scene.gh.url}/settings/apps/new?state=s1", data={"manifest": manifest}, timeout=10
    )
    assert "Create GitHub App" in new.text
    form = {"manifest": manifest, "state": "s1", "owner": "alice"}
    back = requests.post(
        f"{scene.gh.url}/settings/apps", data=form, timeout=10, allow_redirects=False
    )
    where = back.headers["Location"]
    match = re.fullmatch(r"http://127\.0\.0\.1:1/setup\?code=(\w+)&state=s1", where)
    assert match is not None
    made = scene.anonymous()("POST", f"/app-manifests/{match[1]}/conversions").json()
    chosen = {"repository": str(scene.repo.id)}
    url = f"{scene.gh.url}/apps/{made['slug']}/installations/new"
    installed = requests.post(url, data=chosen, timeout=10, allow_redirects=False)
    assert installed.headers["Location"].startswith("http://127.0.0.1:1/installed?installation_id=")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("<script>alert(1)</script>", "&lt;script&gt;"),
        ('<img src=x onerror="alert(1)">', "&lt;img"),
        ("<details>\n<summary>More</summary>\n\nx\n\n</details>", "<summary>More</summary>"),
        ('<details onclick="x">', "&lt;details onclick"),
        ("`<!-- code -->`", "&lt;!-- code --&gt;"),
        ("[x](javascript:alert(1))", "[x](javascript:alert(1))"),
        ("- [x] done\n- [ ] open", 'type="checkbox" disabled checked> done'),
        ("see #12", '<a href="/acme/widgets/issues/12">#12</a>'),
    ],
)
def test_markdown_is_safe(text: str, shown: str) -> None:
    assert shown in render(text, "/acme/widgets")


def test_hidden_comments_stay_hidden() -> None:
    assert "marker" not in render("a <!-- marker --> b\n\n<!-- marker\n-->\n\nc", "/x/y")

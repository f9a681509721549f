"""The pages and their addresses.

They are the operator's window: whoever reaches loopback sees everything, private repositories
included, without signing in. Programs use the API and git, where every right is enforced.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.resources import files
from typing import Any
from urllib.parse import quote, urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from werkzeug.exceptions import HTTPException, NotFound
from werkzeug.routing import Map, Rule
from werkzeug.wrappers import Request, Response

from demo.github import manifests
from demo.github.acts import installs
from demo.github.acts.pulls import linked_issues
from demo.github.clock import stamp
from demo.github.diffs import diff, diff_text
from demo.github.errors import ApiError
from demo.github.git import EMPTY_TREE
from demo.github.pullfacts import diff_files, fork_point, merge_state, pull_commits
from demo.github.records import App, CheckRun, Issue, Pull, Repo, User, find_by_id
from demo.github.web import markdown
from demo.github.web.timeline import entries
from demo.github.world import World

Page = Callable[..., Response]
_EMOJI = {
    "+1": "👍", "-1": "👎", "laugh": "😄", "confused": "😕",
    "heart": "❤️", "hooray": "🎉", "rocket": "🚀", "eyes": "👀",
}  # fmt: skip
_REPO = "/<owner>/<name>"
_PULL = f"{_REPO}/pull/<int:number>"

# Which method answers what; made once, as werkzeug compiles each rule.
_MAP = Map([Rule(path, endpoint=page, methods=methods) for path, page, methods in (
    ("/", "home", ["GET"]),
    ("/style.css", "style", ["GET"]),
    ("/avatars/u/<int:user_id>", "avatar", ["GET"]),
    ("/settings/apps/new", "new_app", ["POST"]),
    ("/organizations/<organization>/settings/apps/new", "new_app", ["POST"]),
    ("/settings/apps", "make_app", ["POST"]),
    ("/apps/<slug>", "app", ["GET"]),
    ("/apps/<slug>/installations/new", "install", ["GET", "POST"]),
    ("/<owner>", "account", ["GET"]),
    (_REPO, "repo", ["GET"]),
    (f"{_REPO}/issues", "issues", ["GET"]),
    (f"{_REPO}/pulls", "pulls", ["GET"]),
    (f"{_REPO}/issues/<int:number>", "issue", ["GET"]),
    (_PULL, "conversation", ["GET"]),
    (f"{_PULL}/commits", "commits", ["GET"]),
    (f"{_PULL}/files", "files", ["GET"]),
    (f"{_PULL}/checks", "checks", ["GET"]),
    (f"{_PULL}.diff", "diff", ["GET"]),
    (f"{_REPO}/commit/<sha>", "commit", ["GET"]),
    (f"{_REPO}/runs/<int:run_id>", "run", ["GET"]),
    (f"{_REPO}/blob/<ref>/<path:path>", "blob", ["GET"]),
    (f"{_REPO}/raw/<ref>/<path:path>", "raw", ["GET"]),
)])  # fmt: skip


class Pages:
    """Answers what is neither the API nor git."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._templates = _templates(world)

    def answer(self, request: Request) -> Response:
        """Return a page. What cannot be found is a 404 page, never an exception."""
        try:
            name, args = _MAP.bind("").match(request.path, method=request.method)
            with self._world.lock:
                page: Page = getattr(self, name)
                return page(request, **args)
        except (HTTPException, ApiError, KeyError) as error:
            status = error.status if isinstance(error, ApiError) else 404
            message = error.message if isinstance(error, ApiError) else "There is no such page."
            return self._show("message.html", status=status, title=str(status), message=message)

    def _show(self, template: str, *, status: int = 200, **values: Any) -> Response:
        html = self._templates.get_template(template).render(**values)
        return Response(html, status, content_type="text/html; charset=utf-8")

    # accounts and repositories

    def home(self, _request: Request) -> Response:
        repos = sorted(self._world.repos.values(), key=lambda repo: repo.full_name)
        return self._show("home.html", repos=repos, owner=None)

    def account(self, _request: Request, owner: str) -> Response:
        account = self._world.user(owner)
        repos = [repo for repo in self._world.repos.values() if repo.owner is account]
        return self._show("home.html", repos=repos, owner=account)

    def style(self, _request: Request) -> Response:
        css = files("demo.github.web").joinpath("static/style.css").read_bytes()
        return Response(css, content_type="text/css; charset=utf-8")

    def avatar(self, _request: Request, user_id: int) -> Response:
        """Draw an account's first letter on a colour of its own."""
        account = find_by_id(tuple(self._world.users.values()), user_id)
        letter = account.login[0].upper() if account else "?"
        svg = (
            '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 40 40">'
            f'<rect width="40" height="40" fill="hsl({user_id * 67 % 360} 45% 45%)"/>'
            '<text x="20" y="27" font-family="sans-serif" font-size="20" fill="#fff" '
            f'text-anchor="middle">{Markup.escape(letter)}</text></svg>'
        )
        return Response(svg, content_type="image/svg+xml")

    def repo(self, _request: Request, owner: str, name: str) -> Response:
        repo = self._repo(owner, name)
        head = repo.git.head(repo.default_branch)
        tree = repo.git.ls_tree(head) if head else []
        readme = next((e for e in tree if e.path.lower() in ("readme.md", "readme")), None)
        text = repo.git.read_blob(readme.sha).decode("utf-8", "replace") if readme else None
        last = repo.git.commit(head) if head else None
        return self._show(
            "repo.html", repo=repo, tab="code", tree=tree, readme=text, last=last,
            branches=repo.git.heads(),
        )  # fmt: skip

    def _repo(self, owner: str, name: str) -> Repo:
        repo = self._world.find_repo(f"{owner}/{name}")
        if repo is None:
            raise NotFound
        return repo

    def issues(self, _request: Request, owner: str, name: str) -> Response:
        repo = self._repo(owner, name)
        found = [issue for issue in repo.issues if not issue.deleted]
        return self._show("list.html", repo=repo, tab="issues", items=found[::-1])

    def pulls(self, _request: Request, owner: str, name: str) -> Response:
        repo = self._repo(owner, name)
        return self._show("list.html", repo=repo, tab="pulls", items=repo.pulls[::-1])

    # issues and pull requests

    def issue(self, _request: Request, owner: str, name: str, number: int) -> Response:
        issue = self._issue(owner, name, number)
        if isinstance(issue, Pull):
            path = f"/{issue.repo.full_name}/pull/{number}"
            return Response(status=302, headers={"Location": path})
        return self._show(
            "issue.html", repo=issue.repo, tab="issues", issue=issue, entries=entries(issue)
        )

    def _issue(self, owner: str, name: str, number: int) -> Issue:
        issue = self._repo(owner, name).issues_by_number.get(number)
        if issue is None or issue.deleted:
            raise NotFound
        return issue

    def _pull(self, owner: str, name: str, number: int) -> Pull:
        pull = self._issue(owner, name, number)
        if not isinstance(pull, Pull):
            raise NotFound
        return pull

    def _show_pull(self, pull: Pull, view: str, **values: Any) -> Response:
        changed = diff_files(pull)
        return self._show(
            "pull.html", repo=pull.repo, tab="pulls", issue=pull, view=view, changed=changed,
            commits=pull_commits(pull), mergeable=merge_state(pull), **values,
        )  # fmt: skip

    def conversation(self, _request: Request, owner: str, name: str, number: int) -> Response:
        pull = self._pull(owner, name, number)
        story = entries(pull)
        later = {c.sha for e in story if e.kind == "commits" for c in e.record.details["commits"]}
        first = [commit for commit in pull_commits(pull) if commit.sha not in later]
        linked = linked_issues(pull)
        return self._show_pull(pull, "conversation", entries=story, linked=linked, first=first)

    def commits(self, _request: Request, owner: str, name: str, number: int) -> Response:
        return self._show_pull(self._pull(owner, name, number), "commits")

    def files(self, _request: Request, owner: str, name: str, number: int) -> Response:
        pull = self._pull(owner, name, number)
        threads: dict[tuple[str, str, int], list[Any]] = {}
        for comment in pull.review_comments:
            if comment.in_reply_to is None and comment.line is not None:
                place = (comment.path, comment.side, comment.line)
                threads.setdefault(place, []).append((comment, *comment.replies))
        return self._show_pull(pull, "files", threads=threads)

    def checks(self, _request: Request, owner: str, name: str, number: int) -> Response:
        return self._show_pull(self._pull(owner, name, number), "checks")

    def diff(self, _request: Request, owner: str, name: str, number: int) -> Response:
        pull = self._pull(owner, name, number)
        text = diff_text(pull.repo.git, fork_point(pull), pull.head_sha)
        return Response(text, content_type="text/plain; charset=utf-8")

    # code

    def commit(self, _request: Request, owner: str, name: str, sha: str) -> Response:
        repo = self._repo(owner, name)
        full = repo.git.commit_sha(sha)
        if full is None:
            raise NotFound
        commit = repo.git.commit(full)
        parent = commit.parents[0] if commit.parents else EMPTY_TREE
        changed = diff(repo.git, parent, full)
        return self._show("commit.html", repo=repo, tab="code", commit=commit, changed=changed)

    def run(self, _request: Request, owner: str, name: str, run_id: int) -> Response:
        repo = self._repo(owner, name)
        run: CheckRun | None = find_by_id(repo.check_runs, run_id)
        if run is None:
            raise NotFound
        return self._show("run.html", repo=repo, tab="code", run=run)

    def blob(self, _request: Request, owner: str, name: str, ref: str, path: str) -> Response:
        repo = self._repo(owner, name)
        text = repo.file(path, ref).decode("utf-8", "replace")
        return self._show("blob.html", repo=repo, tab="code", path=path, ref=ref, text=text)

    def raw(self, _request: Request, owner: str, name: str, ref: str, path: str) -> Response:
        data = self._repo(owner, name).file(path, ref)
        return Response(data, content_type="text/plain; charset=utf-8")

    # Apps

    def new_app(self, request: Request, organization: str = "") -> Response:
        """Show what a manifest asks for, with the button that makes it so."""
        text, state = request.form.get("manifest", ""), request.args.get("state", "")
        owner = organization or self._somebody().login
        manifests.read(text)
        return self._show("new_app.html", manifest=text, state=state, owner=owner)

    def make_app(self, request: Request) -> Response:
        """Accept a manifest and lead back to the App's own page with the code."""
        owner = self._world.user(request.form.get("owner", ""))
        code, manifest = manifests.accept(self._world, owner, request.form.get("manifest", ""))
        query = {"code": code, "state": request.form.get("state", "")}
        target = f"{manifest.get('redirect_url', '/')}?{urlencode(query)}"
        return Response(status=302, headers={"Location": target})

    def _somebody(self) -> User:
        """Return the account that is signed in: the first person here."""
        people = (user for user in self._world.users.values() if user.kind == "User")
        found = next(people, None)
        return found or self._world.add_user("operator")

    def app(self, _request: Request, slug: str) -> Response:
        return self._show("app.html", app=self._app(slug))

    def _app(self, slug: str) -> App:
        app = self._world.app_by_slug(slug)
        if app is None:
            raise NotFound
        return app

    def install(self, request: Request, slug: str) -> Response:
        """Offer the repositories; installing leads to the App's set-up address if it has one."""
        app = self._app(slug)
        if request.method == "GET":
            return self._show("install.html", app=app, repos=self._world.repos.values())
        chosen = [self._world.repos[int(one)] for one in request.form.getlist("repository")]
        if not chosen:
            raise ApiError(422, "Choose at least one repository.")
        made = installs.install(self._world, app, chosen[0].owner, chosen)
        query = urlencode({"installation_id": made.id, "setup_action": "install"})
        target = f"{app.setup_url}?{query}" if app.setup_url else f"/apps/{slug}"
        return Response(status=302, headers={"Location": target})


def _templates(world: World) -> Environment:
    environment = Environment(
        loader=PackageLoader("demo.github.web"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["markdown"] = lambda text, repo: markdown.render(text, f"/{repo.full_name}")
    environment.filters["ago"] = lambda at: _ago(world.now() - at)
    environment.filters["stamp"] = stamp
    environment.filters["emoji"] = lambda content: _EMOJI[content]
    environment.filters["address"] = quote
    environment.filters["ink"] = _ink
    environment.tests["pull"] = lambda issue: isinstance(issue, Pull)
    return environment


def _ago(seconds: float) -> str:
    if seconds < 60:
        return "just now"
    for size, unit in ((86400, "day"), (3600, "hour"), (60, "minute")):
        count = int(seconds // size)
        if count:
            return f"{count} {unit}{'' if count == 1 else 's'} ago"
    return "just now"


def _ink(color: str) -> str:
    """Return black or white, whichever can be read on a label's colour."""
    red, green, blue = (int(color[i : i + 2], 16) for i in (0, 2, 4))
    return "#1f2328" if (red * 299 + green * 587 + blue * 114) / 1000 > 140 else "#ffffff"

"""The REST API under `/api/v3`: one module of handlers per noun."""

from demo.github.rest import (
    actions,
    apps,
    checks,
    comments,
    commits,
    contents,
    gitdata,
    issues,
    labels,
    people,
    pulls,
    reactions,
    repos,
    reviews,
    teams,
)

__all__ = [
    "actions",
    "apps",
    "checks",
    "comments",
    "commits",
    "contents",
    "gitdata",
    "issues",
    "labels",
    "people",
    "pulls",
    "reactions",
    "repos",
    "reviews",
    "teams",
]

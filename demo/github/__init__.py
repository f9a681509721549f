"""A local GitHub: stateful, on loopback, and no kinder than the original."""

from demo.github.people import NotAllowed, Person
from demo.github.records import Comment, Issue, Pull, Repo, Review, ReviewComment
from demo.github.server import AppKeys, LocalGitHub
from demo.github.trees import Executable, Submodule, Symlink

__all__ = [
    "AppKeys",
    "Comment",
    "Executable",
    "Issue",
    "LocalGitHub",
    "NotAllowed",
    "Person",
    "Pull",
    "Repo",
    "Review",
    "ReviewComment",
    "Submodule",
    "Symlink",
]

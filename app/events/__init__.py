"""Webhook bytes → one typed event, or the reason why there is none.

Nothing after this package sees GitHub's JSON. Pure. The signature is checked over the raw bytes
before anything is parsed; text in the values is GitHub's users' and stays untrusted.
"""

from app.events.delivery import ANY_ACTION, parse_delivery
from app.events.payload import MalformedDelivery
from app.events.signature import SIGNATURE_HEADER, sign, verify_signature
from app.events.values import (
    GHOST,
    Actor,
    CheckActionRequested,
    CheckCompleted,
    CheckRef,
    CheckRerequested,
    CommentCreated,
    Event,
    Ignored,
    InstallationChanged,
    IssueAssigned,
    IssueClosed,
    IssueLabeled,
    IssueRef,
    IssueUnlabeled,
    Ping,
    PullClosed,
    PullRef,
    RepoEvent,
    RepoName,
    RepoRef,
    ReviewCommentCreated,
    ReviewSubmitted,
    subject_of,
)

__all__ = [
    "ANY_ACTION",
    "GHOST",
    "SIGNATURE_HEADER",
    "Actor",
    "CheckActionRequested",
    "CheckCompleted",
    "CheckRef",
    "CheckRerequested",
    "CommentCreated",
    "Event",
    "Ignored",
    "InstallationChanged",
    "IssueAssigned",
    "IssueClosed",
    "IssueLabeled",
    "IssueRef",
    "IssueUnlabeled",
    "MalformedDelivery",
    "Ping",
    "PullClosed",
    "PullRef",
    "RepoEvent",
    "RepoName",
    "RepoRef",
    "ReviewCommentCreated",
    "ReviewSubmitted",
    "parse_delivery",
    "sign",
    "subject_of",
    "verify_signature",
]

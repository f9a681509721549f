"""Every sentence that Drydock posts on GitHub, as Markdown. Pure.

Each message says what happened, what it means and what to do next, to whoever can do it. Words
from outside (people's, the model's, the repository's) go through `app.text` before they stand in
one; nothing of theirs can mention anybody, close an issue or look like a marker of ours.
"""

from app.clip import BODY_LIMIT, clip, github_length
from app.messages.brakes import brake_marker
from app.messages.checks import CheckOutput, check_output, provenance_text
from app.messages.commits import CONVENTIONAL, co_author, commit_message
from app.messages.endings import ending_text, ending_title
from app.messages.findings import allow_word, refused_paths
from app.messages.notices import (
    app_lost_access,
    base_moved,
    cannot_fetch,
    config_error,
    empty_repository,
    host_trouble,
    missing_base,
    not_started,
    undo_impossible,
)
from app.messages.pulls import (
    pull_request_body,
    pull_request_marker,
    pull_request_title,
    refusal_words,
)
from app.messages.replies import (
    COMMAND_HELP,
    OPTION_HELP,
    command_error,
    help_text,
    reply_body,
    reply_marker,
)
from app.messages.status import (
    PHASE_WORDS,
    StatusView,
    status_comment,
    status_marker,
    told_place,
)
from app.messages.verdicts import no_test_command, verdict_sentence
from app.messages.words import cost_words, duration, spending_words
from app.text import neutralise

__all__ = [
    "BODY_LIMIT",
    "COMMAND_HELP",
    "CONVENTIONAL",
    "OPTION_HELP",
    "PHASE_WORDS",
    "CheckOutput",
    "StatusView",
    "allow_word",
    "app_lost_access",
    "base_moved",
    "brake_marker",
    "cannot_fetch",
    "check_output",
    "clip",
    "co_author",
    "command_error",
    "commit_message",
    "config_error",
    "cost_words",
    "duration",
    "empty_repository",
    "ending_text",
    "ending_title",
    "github_length",
    "help_text",
    "host_trouble",
    "missing_base",
    "neutralise",
    "no_test_command",
    "not_started",
    "provenance_text",
    "pull_request_body",
    "pull_request_marker",
    "pull_request_title",
    "refusal_words",
    "refused_paths",
    "reply_body",
    "reply_marker",
    "spending_words",
    "status_comment",
    "status_marker",
    "told_place",
    "undo_impossible",
    "verdict_sentence",
]

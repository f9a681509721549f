"""What is said when there is no run to speak of, or none can be. Pure."""

from __future__ import annotations

from app.messages.words import NOTHING_CHANGED, OPERATOR, RETRY, detail_words
from app.repo_config import CONFIG_PATH, ConfigError
from app.text import code_span, inline, one_line


def config_error(error: ConfigError) -> str:
    """Say to a maintainer what is wrong in the repository's config file."""
    line = f", line {error.line}" if error.line is not None else ""
    near = f" Did you mean {code_span(error.nearest)}?" if error.nearest else ""
    return (
        f"**`{CONFIG_PATH}`{line}:** {inline(error.reason, 400)}.{near}\n\n"
        "Drydock does not guess what was meant, so no run was started.\n\n"
        f"**Next:** a maintainer corrects the file on the default branch; then {RETRY}."
    )


def empty_repository() -> str:
    """Say that there is no commit to start from."""
    return (
        "**This repository has no commits yet**, so there is nothing to start from.\n\n"
        f"**Next:** push a first commit to the default branch; then {RETRY}."
    )


def missing_base(base: str) -> str:
    """Say that the base branch does not exist."""
    return (
        f"**There is no branch {code_span(base)} here**, so the run could not start.\n\n"
        f"**Next:** give another one (`/aider base=BRANCH`), or a maintainer corrects `base` in"
        f" `{CONFIG_PATH}`."
    )


def cannot_fetch(detail: str) -> str:
    """Say that the repository could not be had, so that nothing was done."""
    return (
        f"**The repository could not be fetched from GitHub.**{detail_words(detail)}\n\n"
        f"No work was done. {NOTHING_CHANGED}\n\n"
        f"**Next:** {RETRY}. If it stays like this, an owner checks that the App is still"
        " installed here and may read the contents."
    )


def host_trouble(detail: str) -> str:
    """Say that the operator has to do something before any run can work."""
    return (
        f"**The host that Drydock runs on needs its operator.**{detail_words(detail)}\n\n"
        f"This is not about the issue. {NOTHING_CHANGED}\n\n"
        f"**Next:** {OPERATOR} puts that right (`drydock doctor` helps); then {RETRY}."
    )


def undo_impossible(reason: str) -> str:
    """Say why a push could not be taken back, and how a person does it."""
    return (
        f"**Nothing was taken back.** {inline(reason, 300)} {NOTHING_CHANGED}\n\n"
        "**Next:** revert by hand what should go, or say what should be different: `/aider …`."
    )


def app_lost_access(repo: str) -> str:
    """Say, on the run page and in the log, that GitHub no longer lets us in."""
    return (
        f"**The App has lost its access to {code_span(repo)}**, so the run ended and nothing can"
        " be posted there.\n\n"
        "**Next:** an owner installs the App on the repository again, or grants what it asks for."
    )


def base_moved(base: str, count: int) -> str:
    """Say that a pull request is behind its base, as one of a run's warnings."""
    commits = "1 commit there is" if count == 1 else f"{count} commits there are"
    return f"{one_line(base)} has moved on meanwhile: {commits} not in this pull request."


def not_started() -> str:
    """Say that a command came to nothing before there was a run that could say so."""
    return (
        "**No run was started.** Something went wrong on Drydock's side before the work began;"
        " whoever runs it finds the reason in its log.\n\n**Next:** comment `/aider` to try again."
    )

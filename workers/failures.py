"""What the brief shows of failed checks: asked from GitHub, bounded, and made readable.

All of it was printed by programs that anybody's commit may have changed, and is nobody's word.
"""

from __future__ import annotations

from collections.abc import Sequence

from app.brief import BriefFailure
from app.github.errors import Gone, NotFound
from app.github.failures import NoLog, annotations_of, job_log_tail
from app.github.gateway import GitHubGateway
from app.github.values import AnnotationInfo, FailedCheck
from app.text import one_line, visible

MAX_SHOWN = 5
MAX_ANNOTATIONS = 30
LOG_LINES = 200
LOG_BYTES = 16 * 1024


def shown_failures(
    gateway: GitHubGateway, failed: Sequence[FailedCheck]
) -> tuple[BriefFailure, ...]:
    """Return the first MAX_SHOWN of the failed checks; their logs share LOG_BYTES.

    Errors: GitHubError, but not for a log that cannot be had.
    """
    shown = failed[:MAX_SHOWN]
    return tuple(_shown(gateway, check, LOG_BYTES // len(shown)) for check in shown)


def _shown(gateway: GitHubGateway, check: FailedCheck, log_bytes: int) -> BriefFailure:
    log, without = "", "the check is no job of GitHub Actions"
    if check.is_actions:
        try:
            log, without = log_tail(job_log_tail(gateway, check.id, log_bytes)), "it is empty"
        except NoLog as error:
            without = str(error)
    return BriefFailure(
        name=check.name,
        conclusion=check.conclusion,
        output="\n\n".join(part for part in (check.summary, check.text) if part),
        annotations=_annotations(gateway, check),
        log=log,
        without_log="" if log else without,
    )


def _annotations(gateway: GitHubGateway, check: FailedCheck) -> str:
    try:
        found = annotations_of(gateway, check.id, MAX_ANNOTATIONS)
    except (NotFound, Gone):
        return ""
    return "\n".join(map(annotation_line, found))


def annotation_line(annotation: AnnotationInfo) -> str:
    """Return one annotation as compilers write it: place, level, words. Pure."""
    first, last = annotation.start_line, annotation.end_line
    lines = str(first) if first == last else f"{first}-{last}"
    words = ": ".join(word for word in (annotation.title, annotation.message) if word)
    where = f"{one_line(annotation.path, 300)}:{lines}"
    return f"{where}: {one_line(annotation.level, 20)}: {one_line(words, 1000)}"


def log_tail(data: bytes) -> str:
    """Return the last LOG_LINES lines, without colours and control characters. Pure.

    The first bytes may be the rest of a character or a line that was cut.
    """
    lines = visible(data.decode("utf-8", "replace")).rstrip().split("\n")
    return "\n".join(line.rstrip() for line in lines[-LOG_LINES:])

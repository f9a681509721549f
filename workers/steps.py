"""The steps of a run that know nothing of GitHub: shared by `workers.run` and `drydock try`.

Each takes what a phase gave, writes down what a reviewer has to know, and returns either what the
next phase needs or how the run ends.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from app.config_words import failing_tests, failing_tests_detail, ttl_detail
from app.messages import config_error
from app.repo_config import CONFIG_PATH, ConfigError, RepoConfig
from app.settings import Settings
from app.states import FailureKind, RunEvent
from workers import base_tests
from workers.base_tests import BaseKey
from workers.checkout import EmptyRepository, NoSuchBranch
from workers.dock import Cargo, Dock, Listener, SetupFailed, Worked
from workers.endings import ending_of_aider, ending_of_base
from workers.inspection import NothingChanged, Passed, Refused
from workers.outcome import OutcomeKind
from workers.prepare import Prepared
from workers.record import Ending, Record


def note_prepared(
    record: Record, prepared: Prepared | EmptyRepository | NoSuchBranch | ConfigError
) -> Prepared | Ending:
    """Go on with what was fetched, or end where there is nothing to start from."""
    if isinstance(prepared, EmptyRepository | NoSuchBranch):
        return ending_of_base(prepared)
    if isinstance(prepared, ConfigError):
        return ending_of_config(prepared)
    record.base_sha = prepared.bundle.base_sha
    record.test_source = prepared.test_source
    config = prepared.config
    record.draft, record.reviewers, record.labels = config.draft, config.reviewers, config.labels
    record.signed_commits = config.signed_commits
    record.warnings += [note for note in prepared.notes if note not in record.warnings]
    return prepared


def ending_of_config(wrong: ConfigError) -> Ending:
    """Return how a run ends whose repository says something wrong of its runs."""
    return Ending(RunEvent.REFUSE, detail=config_trouble(wrong), explanation=config_error(wrong))


def ending_of_tests(record: Record, config: RepoConfig) -> Ending | None:
    """Return how a run ends whose tests fail where the repository wants no such pull request."""
    test = record.test
    if config.on_failing_tests != "none" or test is None or test.passed:
        return None
    return Ending(
        RunEvent.REFUSE,
        detail=failing_tests_detail(test),
        explanation=failing_tests(test, continues=record.continues is not None),
    )


def with_own_ttl(ending: Ending, config: RepoConfig) -> Ending:
    """Say of a run whose time was up that its repository made it short, where that is so."""
    if ending.event is not RunEvent.TIME_OUT or config.ttl is None:
        return ending
    return replace(ending, detail=ttl_detail(ending.detail, config.ttl))


def cargo_of(prepared: Prepared, brief: str) -> Cargo:
    return Cargo(
        bundle=prepared.bundle,
        brief=brief,
        files=prepared.files,
        commands=prepared.commands,
        egress=prepared.config.egress,
        conventions=prepared.conventions,
    )


def work_in(
    dock: Dock, cargo: Cargo, listener: Listener, record: Record, settings: Settings, repo_id: int
) -> Path | Ending:
    """Have the machine do its part; the tests on the base run there unless their result is kept.

    Returns the bundle that came back. Errors: those of `Dock.work`.
    """
    key = BaseKey(repo_id, cargo.bundle.base_sha, record.template_digest, cargo.commands)
    known = base_tests.find(settings.state_dir, key)
    asked = replace(cargo, test_base=settings.test_base and known is None)
    try:
        worked = dock.work(asked, listener)
    finally:
        record.account = dock.account()
    if isinstance(worked, SetupFailed):
        return note_setup(record, worked)
    record.test_before = worked.test_before or known
    if worked.test_before is not None:
        base_tests.keep(settings.state_dir, key, worked.test_before)
    note_work(record, worked)
    return ending_of_aider(worked.outcome) or worked.bundle or Ending(RunEvent.NO_CHANGE)


def note_setup(record: Record, failed: SetupFailed) -> Ending:
    """Return how a run ends whose set-up failed, with what the command said written down."""
    if failed.refused:
        return Ending(RunEvent.REFUSE, detail=failed.refused)
    ended = failed.test
    record.log_tail = ended.tail
    how = "took too long" if ended.timed_out else f"ended with exit status {ended.exit_code}"
    return Ending(RunEvent.FAIL, FailureKind.SETUP, f"{ended.command} {how}.")


def note_work(record: Record, worked: Worked) -> None:
    """Write down what the machine gave, and what a reviewer has to know about it."""
    record.test, record.setup, record.lint = worked.test, worked.setup, worked.lint
    if worked.outcome.kind is OutcomeKind.ANSWERED_IN_PROSE:
        record.answer = worked.outcome.last_reply
    if worked.outcome.gave_up:
        record.warnings.append("Aider gave up after its last attempt to make the tests pass.")
    if worked.leftovers:
        names = ", ".join(worked.leftovers[:5])
        record.warnings.append(f"Left out, since Aider did not commit it: {names}")
    if worked.hidden:
        record.warnings.append(f"Not shown to Aider: {', '.join(worked.hidden[:5])}")


def note_judged(record: Record, judged: Passed | Refused | NothingChanged) -> Passed | Ending:
    """Go on with what passed the gate, or end with what it found."""
    if isinstance(judged, NothingChanged):
        return Ending(RunEvent.NO_CHANGE)
    if isinstance(judged, Refused):
        record.findings = judged.findings
        return Ending(RunEvent.REFUSE, detail=judged.findings[0].reason)
    note_passed(record, judged)
    return judged


def note_passed(record: Record, passed: Passed) -> None:
    record.commits = passed.commits
    record.diffstat = passed.diffstat
    record.diff = passed.diff
    record.head_sha = passed.head_sha
    record.findings = passed.warnings
    record.conventional = passed.conventional


def config_trouble(error: ConfigError) -> str:
    """Say what is wrong in the repository's config, where, and what was probably meant."""
    where = f"{CONFIG_PATH}, line {error.line}" if error.line else CONFIG_PATH
    hint = f"; did you mean {error.nearest}?" if error.nearest else ""
    return f"{where}: {error.reason}{hint}"

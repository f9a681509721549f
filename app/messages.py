"""Every sentence that Drydock posts on GitHub, as Markdown. Pure.

Each message says what happened, what it means and what to do next, to whoever can do it. Words
from outside (people's, the model's, the repository's) go through `app.text` before they stand in
one; nothing of theirs can mention anybody, close an issue or look like a marker of ours.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from app.clip import BODY_LIMIT, clip, github_length
from app.commands import CommandError
from app.intents import MessageKey, Reply
from app.repo_config import CONFIG_PATH, ConfigError
from app.report import CommitSummary, GateFinding, RunReport, Spending, TestResult
from app.states import ENDED, PHASES, FailureKind, RunState
from app.text import code_block, code_span, inline, neutralise, one_line, plain, quote, visible

__all__ = [
    "BODY_LIMIT",
    "CheckOutput",
    "StatusView",
    "app_lost_access",
    "cannot_fetch",
    "check_output",
    "clip",
    "co_author",
    "command_error",
    "commit_message",
    "config_error",
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
    "pull_request_body",
    "pull_request_title",
    "queue_down",
    "reply_body",
    "reply_marker",
    "status_comment",
    "status_marker",
]

_TITLE_LIMIT = 200
_TAIL_LIMIT = 6_000
_ANSWER_LIMIT = 20_000
_LISTED = 50
_NAMED = 10

PHASE_WORDS: Mapping[RunState, str] = {
    RunState.CHECKOUT: "Fetch the repository",
    RunState.MACHINE: "Start a machine",
    RunState.SETUP: "Set it up",
    RunState.AGENT: "Aider works",
    RunState.VERIFY: "Run the tests",
    RunState.GATE: "Check the commits",
    RunState.PUBLISH: "Open the pull request",
}


@dataclass(frozen=True)
class StatusView:
    """What the status comment of one run shows at one moment.

    `queue_position` counts from 1 and is None once the run was claimed. `seconds_by_phase` holds
    the phases that ran, keyed by `RunState` value. `report` is there once the run ended.
    """

    run_id: str
    state: RunState
    asked_by: str
    model: str = ""
    instruction: str = ""
    queue_position: int | None = None
    seconds_by_phase: Mapping[str, float] = field(default_factory=dict)
    brief_sha256: str = ""
    notes: tuple[str, ...] = ()
    run_url: str | None = None
    report: RunReport | None = None


@dataclass(frozen=True)
class CheckOutput:
    """A check run's fields: `conclusion` is None while the run is active."""

    status: str
    conclusion: str | None
    title: str
    summary: str


# --- the status comment -----------------------------------------------------------------------


def status_marker(run_id: str) -> str:
    """The first line of a run's status comment; it is searched for before one is created."""
    return f"<!-- drydock:status run={_token(run_id)} -->"


def reply_marker(delivery_id: str, index: int) -> str:
    """The first line of a reply, so that a delivery taken twice is answered once."""
    return f"<!-- drydock:reply to={_token(f'{delivery_id}.{index}')} -->"


def status_comment(view: StatusView) -> str:
    """Return the one comment of a run: where it is, phase by phase, and how it ended."""
    ended = view.report if view.state in ENDED else None
    shown = _moving(view) if ended is None else _ended(view, ended)
    parts = [status_marker(view.run_id), *shown]
    return clip("\n\n".join(part for part in parts if part) + "\n", more_url=view.run_url)


def _moving(view: StatusView) -> list[str]:
    asked = f"Asked for by {inline(view.asked_by)}" + _with_instruction(view.instruction)
    return [
        f"**{_headline(view)}**",
        asked,
        _checklist(view),
        _notes(view.notes),
        _footer(view, "`/aider stop` ends it"),
    ]


def _ended(view: StatusView, report: RunReport) -> list[str]:
    return [
        ending_text(report),
        _details("What was done", _checklist(view)),
        _notes(view.notes),
        _footer(view, ""),
    ]


def _with_instruction(instruction: str) -> str:
    return f":\n\n{quote(_head(instruction, 2000))}" if instruction.strip() else "."


def _headline(view: StatusView) -> str:
    if view.state is not RunState.QUEUED:
        return "Drydock is working on this."
    if view.queue_position is None or view.queue_position <= 1:
        return "Drydock took this on; the run starts as soon as a worker is free."
    ahead = view.queue_position - 1
    return f"Drydock took this on; {ahead} {'run is' if ahead == 1 else 'runs are'} before it."


def _checklist(view: StatusView) -> str:
    return "\n".join(_phase_line(phase, view) for phase in PHASES)


def _phase_line(phase: RunState, view: StatusView) -> str:
    seconds = view.seconds_by_phase.get(phase.value)
    words = PHASE_WORDS[phase]
    if phase is view.state:
        return f"- [ ] **{words}** …"
    if seconds is None:
        return f"- [ ] {words}"
    if _stopped_in(view) == phase.value:
        return f"- [ ] **{words}**: ended here after {duration(seconds)}"
    return f"- [x] {words} ({duration(seconds)})"


def _stopped_in(view: StatusView) -> str | None:
    """The phase that a run ended in before its time."""
    if view.state not in ENDED or view.state in {RunState.PUBLISHED, RunState.NO_CHANGES}:
        return None
    return list(view.seconds_by_phase)[-1] if view.seconds_by_phase else None


def _footer(view: StatusView, hint: str) -> str:
    parts = [
        f"Model {code_span(view.model)}" if view.model else "",
        f"brief {code_span(view.brief_sha256[:12])}" if view.brief_sha256 else "",
        f"[run page]({view.run_url})" if view.run_url else f"run {code_span(view.run_id)}",
        hint,
    ]
    return f"<sub>{' · '.join(part for part in parts if part)}</sub>"


def _notes(notes: Sequence[str]) -> str:
    return "\n".join(f"- {inline(note, 1000)}" for note in notes)


# --- how runs end -----------------------------------------------------------------------------


@dataclass(frozen=True)
class _Ending:
    """`title` says what happened, `means` what follows from it, `next` who does what now."""

    title: str
    means: str
    next: str


_NOTHING_CHANGED = "Nothing was pushed."
_RETRY = "comment `/aider retry`"
_OPERATOR = "whoever runs this Drydock"

_FAILURES: Mapping[FailureKind, _Ending] = {
    FailureKind.MODEL_AUTH: _Ending(
        "The model's server rejected the key.",
        f"No run can work until this is put right. {_NOTHING_CHANGED}",
        f"{_OPERATOR} checks `DRYDOCK_MODEL_API_KEY` and `DRYDOCK_MODEL_API_BASE`"
        f" (`drydock doctor` tries them); then {_RETRY}.",
    ),
    FailureKind.MODEL_QUOTA: _Ending(
        "The money for the model ran out.",
        f"The vendor says that the account has no credit or quota left. {_NOTHING_CHANGED}",
        f"{_OPERATOR} tops up the account; then {_RETRY}.",
    ),
    FailureKind.BUDGET: _Ending(
        "The spending cap is reached.",
        f"Drydock stopped the run before it could cost more. {_NOTHING_CHANGED}",
        f"{_OPERATOR} can raise the cap that is named above; a cap of a day is free again after"
        f" midnight UTC. Then {_RETRY}.",
    ),
    FailureKind.MODEL_UNAVAILABLE: _Ending(
        "The model could not be reached.",
        "Its server did not answer, answered with errors, or asked to slow down for too long."
        f" {_NOTHING_CHANGED}",
        f"wait a few minutes and {_RETRY}. If it stays like this, {_OPERATOR}"
        " checks `DRYDOCK_MODEL_API_BASE` and the vendor's status page.",
    ),
    FailureKind.CONTEXT_OVERFLOW: _Ending(
        "The task did not fit into the model's context.",
        f"The issue and the files that it needs are too long together. {_NOTHING_CHANGED}",
        "split the issue or name the few files that matter, for example"
        " `/aider only change src/parser.py`; or choose a model with a larger context.",
    ),
    FailureKind.SETUP: _Ending(
        "The repository's set-up failed.",
        f"Aider was not started. {_NOTHING_CHANGED}",
        f"a maintainer corrects `setup` in `{CONFIG_PATH}` on the default branch; then {_RETRY}.",
    ),
    FailureKind.AGENT: _Ending(
        "Aider ended without a usable result.",
        f"It stopped early, or its edits could not be applied. {_NOTHING_CHANGED}",
        f"{_RETRY}, or say more exactly what to change: `/aider in FILE, change …`.",
    ),
    FailureKind.SANDBOX: _Ending(
        "The machine for the run failed.",
        f"This is about the host that Drydock runs on, not about the issue. {_NOTHING_CHANGED}",
        f"{_OPERATOR} runs `drydock doctor`; then {_RETRY}.",
    ),
    FailureKind.GITHUB: _Ending(
        "GitHub did not take the result.",
        "The work was done, but it could not be fetched, pushed or opened as a pull request.",
        f"{_RETRY}. If it stays like this, an owner checks that the App is still installed here"
        " and may write contents and pull requests.",
    ),
    FailureKind.INTERNAL: _Ending(
        "Drydock itself failed.",
        f"This is a defect in Drydock, not in the issue. {_NOTHING_CHANGED}",
        f"{_RETRY}; {_OPERATOR} finds the details in the log under the run's id.",
    ),
}

_ENDINGS: Mapping[RunState, _Ending] = {
    RunState.NO_CHANGES: _Ending(
        "Aider changed nothing.",
        f"The model saw what is asked and made no edit. {_NOTHING_CHANGED}",
        "say what should change, and where: `/aider in FILE, change …`.",
    ),
    RunState.REFUSED: _Ending(
        "Drydock refused the result.",
        f"It breaks a rule that protects this repository. {_NOTHING_CHANGED}",
        "ask for it in another way (`/aider … without changing those files`), or make this"
        " part of the change by hand.",
    ),
    RunState.TIMED_OUT: _Ending(
        "The run reached its time limit.",
        f"Its machine was destroyed. {_NOTHING_CHANGED}",
        f"{_RETRY}, or split the issue into smaller ones."
        f" W{_OPERATOR[1:]} can raise `DRYDOCK_TTL_MINUTES` and the limits beside it.",
    ),
    RunState.CANCELLED: _Ending(
        "The run was stopped.",
        f"Its machine was destroyed. {_NOTHING_CHANGED}",
        f"nothing, or {_RETRY} to start over.",
    ),
}
_ANSWERED = _Ending(
    "Aider answered in words and changed nothing.",
    f"{_NOTHING_CHANGED} This is what the model said; nobody checked it:",
    "if something should be changed, say what: `/aider …`.",
)


def ending_title(report: RunReport) -> str:
    """Return one plain sentence about how a run ended."""
    if report.outcome is RunState.PUBLISHED:
        return _published_title(report)
    return _ending(report).title


def ending_text(report: RunReport) -> str:
    """Return the honest message of a run's ending: what happened, what it means, what to do."""
    if report.explanation:
        return "\n\n".join(part for part in (report.explanation, _spent(report)) if part)
    if report.outcome is RunState.PUBLISHED:
        return _published(report)
    ending = _ending(report)
    parts = [
        f"**{ending.title}**{_detail(report.detail)}",
        ending.means,
        _findings(report),
        quote(_head(report.answer, _ANSWER_LIMIT)) if _answered(report) else "",
        _details("The end of the output", _tail(report.log_tail))
        if report.log_tail.strip()
        else "",
        f"**Next:** {ending.next}",
        _how_to_allow(report),
        _spent(report),
    ]
    return "\n\n".join(part for part in parts if part)


def _ending(report: RunReport) -> _Ending:
    if _answered(report):
        return _ANSWERED
    if report.outcome is RunState.FAILED:
        return _FAILURES[report.failure_kind or FailureKind.INTERNAL]
    return _ENDINGS[report.outcome]


def _answered(report: RunReport) -> bool:
    return report.outcome is RunState.NO_CHANGES and bool(report.answer.strip())


def _detail(detail: str) -> str:
    return f" {inline(detail, 600)}" if detail.strip() else ""


def _findings(report: RunReport) -> str:
    lines = [_finding(finding) for finding in report.findings[:_LISTED]]
    return "\n".join((*lines, *_and_more(len(report.findings))))


def _finding(finding: GateFinding) -> str:
    rule = code_span(finding.rule)
    sign = "⚠️ " if finding.level == "warn" else ""
    where = f"{code_span(finding.path)}: " if finding.path else ""
    return f"- {sign}{where}{inline(finding.reason, 400)} (rule {rule})"


def _how_to_allow(report: RunReport) -> str:
    """Say how a maintainer lets a refused file through, where one may."""
    paths = refused_paths(report)
    if report.outcome is not RunState.REFUSED or not paths:
        return ""
    others = sum(f.level == "refuse" and not f.allowable for f in report.findings)
    rest = " What else was refused stays so." if others else ""
    return (
        f"What was made is kept for a while. A maintainer who has looked at it may let a file"
        f" through for this run: {code_span('/aider allow ' + allow_word(paths[0]), 300)}."
        f" It is judged again without new work by the model.{rest}"
    )


def refused_paths(report: RunReport) -> tuple[str, ...]:
    """Return the paths that were refused and that a person may let through, each once."""
    found = (f.path for f in report.findings if f.level == "refuse" and f.allowable and f.path)
    return tuple(dict.fromkeys(found))


def allow_word(path: str) -> str:
    """Return a path as it has to be written after `/aider allow`."""
    return path if re.fullmatch(r"[^\s`\"']+", path) else f'"{path}"'


def _and_more(count: int) -> tuple[str, ...]:
    return (f"- and {count - _LISTED} more",) if count > _LISTED else ()


def _published_title(report: RunReport) -> str:
    if report.continues is not None:
        return _continued_title(report, report.continues)
    number = report.pull_request_number
    named = f"Pull request #{number}" if number else "The pull request"
    if report.test is None:
        return f"{named} is there; no tests were run."
    return f"{named} is there; its tests {'pass' if report.test.passed else 'fail'}."


def _continued_title(report: RunReport, number: int) -> str:
    count = len(report.commits)
    commits = f"{count} {'commit' if count == 1 else 'commits'}"
    if report.aside:
        return f"The work could not be added to #{number}; it lies on a branch beside it."
    if report.undoes:
        return f"The last push to #{number} was taken back."
    if report.test is None:
        return f"{commits} added to #{number}; no tests were run."
    passing = "pass" if report.test.passed else "fail"
    when = "ed before they were rebased" if report.rebased else ""
    return f"{commits} added to #{number}; the tests {passing}{when}."


def _published(report: RunReport) -> str:
    title = _published_title(report)
    if report.continues is not None:
        return _continued(report, title)
    link = f" {report.pull_request_url}" if report.pull_request_url else ""
    parts = [f"**{title}**{link}", verdict_sentence(report), _spent(report)]
    return "\n\n".join(part for part in parts if part)


def _continued(report: RunReport, title: str) -> str:
    """What a reviewer needs of a follow-up: the pull request's own text stays as it is."""
    branch = code_span(report.branch or "?")
    aside = (
        f"The branch moved on while Drydock worked, and both changed the same lines. Nothing of it"
        f" was touched; the commits are on {branch}.\n\n**Next:** merge or cherry-pick them from"
        " there, or comment `/aider retry` to do the work again on the new head."
    )
    parts = [
        f"**{title}**",
        aside if report.aside else "",
        _gate_warnings(report),
        "" if report.undoes else verdict_sentence(report),
        _commits(report),
        _warnings(report.warnings),
        quote(_head(report.answer, _ANSWER_LIMIT)) if report.answer.strip() else "",
        _spent(report),
    ]
    return "\n\n".join(part for part in parts if part)


def _spent(report: RunReport) -> str:
    return f"<sub>{spending_words(report.spending)}</sub>" if report.spending.calls else ""


# --- the pull request -------------------------------------------------------------------------


def pull_request_title(report: RunReport) -> str:
    """Return the issue's title as plain text that closes and mentions nothing when merged."""
    title = one_line(plain(report.issue_title), _TITLE_LIMIT)
    title = title or f"Resolve issue {report.issue_number}"
    if not report.conventional or CONVENTIONAL.match(title):
        return title
    return f"{_conventional_type(report)}: {title}"


CONVENTIONAL = re.compile(
    r"(build|chore|ci|docs|feat|fix|perf|refactor|revert|style|test)(?:\([\w ./-]{1,40}\))?!?: \S"
)


def _conventional_type(report: RunReport) -> str:
    """The type that most of the run's commits have; a run mends something where none has one."""
    found = (CONVENTIONAL.match(commit.subject) for commit in report.commits)
    types = [match[1] for match in found if match is not None]
    return max(types, key=types.count) if types else "fix"


def pull_request_body(report: RunReport) -> str:
    """Return the body: the verdict, what was asked and what changed first, then how it was made."""
    parts = [
        f"Fixes #{report.issue_number}",
        _gate_warnings(report),
        verdict_sentence(report),
        _test_output(report.test),
        _asked(report),
        "### What changed",
        _commits(report),
        _warnings(report.warnings),
        "### Asking for changes",
        _how_to_ask(report),
        "### How it was made",
        _made(report),
    ]
    body = "\n\n".join(part for part in parts if part) + "\n"
    return clip(f"{pull_request_marker(report.run_id)}\n{body}", more_url=report.run_url)


def _gate_warnings(report: RunReport) -> str:
    """What the gate wants looked at: it comes first, since a reviewer must not miss it."""
    if not report.findings:
        return ""
    return f"**Look at this first:**\n\n{_findings(report)}"


def pull_request_marker(run_id: str) -> str:
    """The first line of a pull request of ours, by which it is found again."""
    return f"<!-- drydock:pull run={_token(run_id)} -->"


def verdict_sentence(report: RunReport) -> str:
    """Say what Drydock's own run of the tests gave, compared with the base where that was run."""
    test = report.test
    if test is None:
        return no_test_command()
    verdict = "✅ **The tests pass.**" if test.passed else "❌ **The tests fail.**"
    source = f" ({inline(report.test_source)})" if report.test_source else ""
    sentence = (
        f"{verdict} {code_span(test.command)}{source} {_exit_words(test)}{_counted(test)}; run by"
        f" Drydock in a fresh process after Aider had ended.{_before(report.test_before)}"
    )
    blame = _blame(test, report.test_before)
    return f"{sentence}\n\n{blame}" if blame else sentence


def _counted(test: TestResult) -> str:
    tally = test.tally
    if tally is None:
        return ""
    skipped = f", {tally.skipped} skipped" if tally.skipped else ""
    return f" ({tally.passed} passed, {tally.failed} failed{skipped})"


def _blame(test: TestResult, before: TestResult | None) -> str:
    """Say which failures are this change's, where both runs can be compared."""
    if test.passed or before is None:
        return ""
    if test.tally is None or before.tally is None:
        return "" if before.passed else "The command failed before the change as well."
    old = set(before.tally.failing)
    new = [name for name in test.tally.failing if name not in old]
    kept = [name for name in test.tally.failing if name in old]
    lines = [
        f"- Broken by this change: {_test_names(new)}" if new else "",
        f"- Failing before as well: {_test_names(kept)}" if kept else "",
    ]
    return "\n".join(line for line in lines if line)


def _test_names(names: Sequence[str]) -> str:
    shown = ", ".join(code_span(name, 120) for name in names[:_NAMED])
    return shown if len(names) <= _NAMED else f"{shown} and {len(names) - _NAMED} more"


def _exit_words(test: TestResult) -> str:
    if test.timed_out:
        return f"did not end within {duration(test.seconds)}"
    if test.exit_code is None:
        return f"was killed by a signal after {duration(test.seconds)}"
    return f"exited with {test.exit_code} after {duration(test.seconds)}"


def _before(before: TestResult | None) -> str:
    if before is None:
        return ""
    return f" Before the change it {_exit_words(before)}{_counted(before)}."


def _test_output(test: TestResult | None) -> str:
    if test is None or not test.tail.strip():
        return ""
    return _details("The end of its output", _tail(test.tail))


def _asked(report: RunReport) -> str:
    asked = f"Asked for by {inline(report.asked_by)} in #{report.issue_number}"
    return asked + _with_instruction(report.instruction)


def _commits(report: RunReport) -> str:
    lines = [_commit_line(commit) for commit in report.commits[:_LISTED]]
    lines += _and_more(len(report.commits))
    stat = _details("Files", code_block(report.diffstat)) if report.diffstat.strip() else ""
    return "\n".join(lines) + (f"\n\n{stat}" if stat else "")


def _commit_line(commit: CommitSummary) -> str:
    count = len(commit.files)
    files = f"{count} {'file' if count == 1 else 'files'}"
    size = f"{files}, +{commit.insertions} -{commit.deletions}"
    return f"- {commit.sha[:10]} {inline(commit.subject)} ({size})"


def _warnings(warnings: Sequence[str]) -> str:
    return "\n".join(f"- ⚠️ {inline(warning, 1000)}" for warning in warnings)


def _how_to_ask(report: RunReport) -> str:
    number = report.issue_number
    return (
        "Review this like anybody's work; you can push to the branch. For another attempt, close"
        f" this pull request and comment `/aider what should be different` on #{number}:"
        " a new run starts from the base branch."
    )


def _made(report: RunReport) -> str:
    branch = report.branch or "?"
    lines = [
        f"- Model: {code_span(report.model)}; {spending_words(report.spending)}",
        f"- Machine: {code_span(report.tier)}, without network or credentials; template"
        f" {code_span(report.template_digest[:12])}",
        f"- Egress: {refusal_words(report)}",
        *_refusals(report),
        f"- Base: {code_span(report.base_ref)} at {report.base_sha[:10]};"
        f" branch {code_span(branch)}",
        f"- Brief: SHA-256 {code_span(report.brief_sha256)}",
        f"- Manifest: SHA-256 {code_span(report.manifest_sha256)}",
        f"- Time: {duration(report.seconds)}{_phases(report.seconds_by_phase)}",
        f"- Run: {_run_link(report)}",
    ]
    return "\n".join(lines)


def refusal_words(report: RunReport) -> str:
    """Say in one clause what egress refused."""
    count = sum(line.count for line in report.refusals)
    if not count:
        return "nothing was refused"
    return f"**{count} {'request was' if count == 1 else 'requests were'} refused**"


def _refusals(report: RunReport) -> tuple[str, ...]:
    lines = [
        f"  - {code_span(line.target)}, {line.count} times: {inline(line.reason, 300)}"
        for line in report.refusals[:_LISTED]
    ]
    return (*lines, *(f"  {more}" for more in _and_more(len(report.refusals))))


def _phases(seconds: Mapping[str, float]) -> str:
    shown = ", ".join(f"{inline(name)} {duration(value)}" for name, value in seconds.items())
    return f" ({shown})" if shown else ""


def _run_link(report: RunReport) -> str:
    if report.run_url:
        return f"[{_token(report.run_id)}]({report.run_url})"
    return code_span(report.run_id)


# --- commits ----------------------------------------------------------------------------------

_TRAILER = re.compile(
    r"^\s*(?:[A-Za-z-]+-by|drydock-[a-z-]+|skip-checks)\s*:.*$", re.IGNORECASE | re.MULTILINE
)


def commit_message(words: str, run_id: str, co_author_line: str | None) -> str:
    """Return the message of a re-created commit: the model's words made plain, our trailers.

    Trailers in the model's words are dropped: who wrote a commit is for us to say.
    """
    subject, _, rest = _TRAILER.sub("", plain(words)).strip().partition("\n")
    subject = one_line(subject, _TITLE_LIMIT) or "Change by Aider"
    body = _head(rest.strip(), 5_000)
    trailers = "\n".join(
        line for line in (co_author_line, f"Drydock-Run: {_token(run_id)}") if line
    )
    return "\n\n".join(part for part in (subject, body, trailers) if part) + "\n"


def co_author(login: str, user_id: int, github_url: str) -> str:
    """Return the trailer that credits a GitHub account, by the address GitHub gives everybody."""
    host = urlsplit(github_url).hostname or "github.com"
    name = re.sub(r"[^A-Za-z0-9_\[\]-]", "", login)
    return f"Co-authored-by: {name} <{user_id}+{name}@users.noreply.{host}>"


# --- replies ----------------------------------------------------------------------------------

COMMAND_HELP: tuple[tuple[str, str], ...] = (
    (
        "/aider [what to do]",
        "start a run for this issue, with your words on top of the issue's; on a pull request, add"
        " commits to it",
    ),
    ("/aider stop", "end the active run; nothing is pushed"),
    ("/aider retry", "run once more from a fresh base"),
    ("/aider status", "say where the run is"),
    (
        "/aider allow PATH",
        "let a file through that the last run was refused for (maintainers only)",
    ),
    ("/aider undo", "revert Drydock's last push (on pull requests)"),
    ("/aider force", "start a run although the issue is closed, locked or assigned to others"),
    ("/aider help", "show this"),
)
OPTION_HELP: tuple[tuple[str, str], ...] = (
    ("model=NAME", "another of the models that the operator allows"),
    ("base=BRANCH", "start from this branch"),
    ("attempts=N", "how many attempts to make"),
)


def help_text(label: str, min_permission: str = "write") -> str:
    """Return one screen of help."""
    commands = [f"- {code_span(command)}: {words}" for command, words in COMMAND_HELP]
    options = [f"- {code_span(option)}: {words}" for option, words in OPTION_HELP]
    return "\n".join(
        (
            f"**Drydock** works on an issue when the label {code_span(label)} is added, or when"
            " a line of a comment, on an issue, a pull request or in a review, begins with a"
            " command:",
            "",
            *commands,
            "",
            "Options stand directly behind the command:",
            "",
            *options,
            "",
            "Commands in quotes, code and lists are not followed. They count from people whose"
            f" permission here is at least {code_span(min_permission)}.",
        )
    )


def reply_body(
    reply: Reply, *, label: str, min_permission: str = "write", status: StatusView | None = None
) -> str:
    """Return the words of a reply. `status` is the view of the run that a reply speaks of."""
    match reply.key:
        case MessageKey.HELP:
            return help_text(label, min_permission)
        case MessageKey.COMMAND_ERROR:
            return command_error(reply.error or CommandError("it was not understood"))
        case MessageKey.STATUS:
            return _status_reply(status)
        case MessageKey.ALREADY_RUNNING:
            return _already_running(reply, status)
        case MessageKey.ASK_FIRST:
            return _ask_first(reply.detail)
        case MessageKey.FORK | MessageKey.HAS_PULL | MessageKey.CONTINUES_THERE:
            there = reply.pull.number if reply.pull is not None else reply.issue_number
            return _POINTERS[reply.key](there)
        case _:
            return _REPLIES[reply.key]


_REPLIES: Mapping[MessageKey, str] = {
    MessageKey.NOTHING_RUNNING: "No run is active for this issue. `/aider` starts one.",
    MessageKey.NOTHING_TO_RETRY: "There was no run for this issue yet. `/aider` starts one.",
    MessageKey.NOT_OPEN: "**This issue is not open, so no run was started.** Reopen it and comment"
    " `/aider`; or `/aider force`, if it is meant so.",
    MessageKey.PULL_NOT_OPEN: "**This pull request is not open, so no run was started.** Reopen it"
    " and comment `/aider`, or go on in an issue.",
    MessageKey.NOT_BY_LABEL: "**Labels and assignments start runs on issues only.** Nothing was"
    " started. Say what should change in this pull request: `/aider …`.",
    MessageKey.NOTHING_TO_ALLOW: "**There is nothing to allow.** The last run of this issue was not"
    " refused for a file that a person may let through.",
    MessageKey.MAY_NOT_ALLOW: "**That was not allowed:** your permission here does not reach so"
    " far. Nothing was changed. A maintainer of this repository can say it.",
    MessageKey.BUNDLE_GONE: "**What the refused run had made is no longer kept here**, so it cannot"
    " be judged again. Nothing was changed. `/aider retry` starts over.",
    MessageKey.NOTHING_TO_UNDO: "**There is nothing to undo here:** this is no open pull request"
    " with a push of Drydock's. Nothing was changed. On a pull request, `/aider undo` reverts what"
    " Drydock pushed to it last.",
}


def _ask_first(why: str) -> str:
    return (
        f"**Nothing was started yet: {inline(why, 300)}.** If Drydock should work on it all the"
        " same, comment `/aider force`."
    )


def _fork(number: int) -> str:
    return (
        "**Drydock cannot push to this pull request:** its branch lies in another repository, and"
        " what that one configures is never run here. Nothing was started.\n\n"
        "**Next:** somebody who may write here brings its commits to a branch of this repository"
        f" (`gh pr checkout {number}`, then `git push origin HEAD:a-new-branch`), opens a pull"
        " request from that, and says `/aider` there."
    )


def _has_pull(number: int) -> str:
    return (
        f"**There is a pull request for this already: #{number}.** No second run was started."
        f"\n\n**Next:** say there, or here, what should be different (`/aider …`); it is continued."
        f" To start over, close #{number} and comment `/aider retry`."
    )


def _continues_there(number: int) -> str:
    return f"Drydock goes on in the open pull request for this: #{number}."


_POINTERS: Mapping[MessageKey, Callable[[int], str]] = {
    MessageKey.FORK: _fork,
    MessageKey.HAS_PULL: _has_pull,
    MessageKey.CONTINUES_THERE: _continues_there,
}


def command_error(error: CommandError) -> str:
    """Say what is wrong with a command, and the nearest right one."""
    near = f" Did you mean {code_span(error.nearest)}?" if error.nearest else ""
    return (
        f"**That command was not followed:** {inline(error.reason, 400)} (line {error.line})."
        f"{near} Nothing was started; `/aider help` lists what there is."
    )


def _status_reply(view: StatusView | None) -> str:
    if view is None:
        return "The status comment of the last run says how it ended."
    if view.state in ENDED and view.report is not None:
        return f"The last run ended. {ending_text(view.report)}"
    return "\n\n".join((f"**{_headline(view)}**", _checklist(view), _footer(view, "")))


def _already_running(reply: Reply, status: StatusView | None) -> str:
    run = code_span(reply.run.run_id) if reply.run is not None and reply.run.run_id else ""
    where = f"[run page]({status.run_url})" if status is not None and status.run_url else run
    see = f" See the status comment above ({where})." if where else " See the status comment above."
    return (
        f"**Drydock is already working on this**, so no second run was started.{see}"
        " `/aider stop` ends it; ask again afterwards."
    )


# --- notices ----------------------------------------------------------------------------------


def config_error(error: ConfigError) -> str:
    """Say to a maintainer what is wrong in the repository's config file."""
    line = f", line {error.line}" if error.line is not None else ""
    near = f" Did you mean {code_span(error.nearest)}?" if error.nearest else ""
    return (
        f"**`{CONFIG_PATH}`{line}:** {inline(error.reason, 400)}.{near}\n\n"
        "Drydock does not guess what was meant, so no run was started.\n\n"
        f"**Next:** a maintainer corrects the file on the default branch; then {_RETRY}."
    )


def empty_repository() -> str:
    """Say that there is no commit to start from."""
    return (
        "**This repository has no commits yet**, so there is nothing to start from.\n\n"
        f"**Next:** push a first commit to the default branch; then {_RETRY}."
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
        f"**The repository could not be fetched from GitHub.**{_detail(detail)}\n\n"
        f"No work was done. {_NOTHING_CHANGED}\n\n"
        f"**Next:** {_RETRY}. If it stays like this, an owner checks that the App is still"
        " installed here and may read the contents."
    )


def host_trouble(detail: str) -> str:
    """Say that the operator has to do something before any run can work."""
    return (
        f"**The host that Drydock runs on needs its operator.**{_detail(detail)}\n\n"
        f"This is not about the issue. {_NOTHING_CHANGED}\n\n"
        f"**Next:** {_OPERATOR} puts that right (`drydock doctor` helps); then {_RETRY}."
    )


def no_test_command() -> str:
    """Say that nothing was tested, and how that changes."""
    return (
        "⚠️ **No tests were run:** no test command is known for this repository. Set `test` in"
        f" `{CONFIG_PATH}` on the default branch, for example `test: make test`."
    )


def app_lost_access(repo: str) -> str:
    """Say, on the run page and in the log, that GitHub no longer lets us in."""
    return (
        f"**The App has lost its access to {code_span(repo)}**, so the run ended and nothing can"
        " be posted there.\n\n"
        "**Next:** an owner installs the App on the repository again, or grants what it asks for."
    )


def not_started() -> str:
    """Say that a command came to nothing before there was a run that could say so."""
    return (
        "**No run was started.** Something went wrong on Drydock's side before the work began;"
        " whoever runs it finds the reason in its log.\n\n**Next:** comment `/aider` to try again."
    )


def queue_down() -> str:
    """Say that a request is kept although no worker can be told of it now."""
    return (
        "**Drydock has stored this, but its queue is not reachable.** The run starts by itself as"
        f" soon as it is; {_OPERATOR} checks Redis (`drydock doctor`)."
    )


# --- check runs -------------------------------------------------------------------------------

_CONCLUSIONS: Mapping[RunState, str] = {
    RunState.NO_CHANGES: "neutral",
    RunState.REFUSED: "failure",
    RunState.FAILED: "failure",
    RunState.TIMED_OUT: "timed_out",
    RunState.CANCELLED: "cancelled",
}


def check_output(view: StatusView) -> CheckOutput:
    """Return the fields of a run's check run; success only if our own test run passed."""
    if view.state is RunState.QUEUED:
        return CheckOutput("queued", None, "Waiting for a worker", _checklist(view))
    report = view.report
    if view.state not in ENDED or report is None:
        title = PHASE_WORDS.get(view.state, "Ending")
        return CheckOutput("in_progress", None, title, _checklist(view))
    summary = clip(ending_text(report), more_url=view.run_url)
    return CheckOutput("completed", _conclusion(report), ending_title(report), summary)


def provenance_text(envelope: str) -> str:
    """Return a check's text with the signed statement: "" where it would not fit."""
    text = (
        "Where this commit came from, signed by this Drydock's operator; `drydock runs verify SHA`"
        f" checks it.\n\n{code_block(envelope, 'json')}"
    )
    return text if github_length(text) < BODY_LIMIT else ""


def _conclusion(report: RunReport) -> str:
    if report.outcome is RunState.PUBLISHED:
        passed = report.test is not None and report.test.passed and not report.rebased
        return "success" if passed else "neutral"
    return _CONCLUSIONS[report.outcome]


# --- words and numbers ------------------------------------------------------------------------


def duration(seconds: float) -> str:
    """Return seconds for people: `0.8 s`, `12 s`, `3 min 05 s`, `1 h 02 min`."""
    if seconds < 9.95:
        return f"{max(0.0, seconds):.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"


def spending_words(spending: Spending) -> str:
    """Say tokens, calls and cost; an unknown price is called unknown, never zero."""
    about = "about " if spending.estimated else ""
    calls = f"{spending.calls} {'call' if spending.calls == 1 else 'calls'}"
    tokens = f"{spending.input_tokens:,} tokens in, {spending.output_tokens:,} out"
    return f"{about}{tokens} in {calls}, {cost_words(spending.cost_usd, about)}"


def cost_words(cost_usd: float | None, about: str = "") -> str:
    """Return the cost in US dollars, with cents' fractions where it is small."""
    if cost_usd is None:
        return "cost unknown (no price is known for this model)"
    return f"{about}${cost_usd:.2f}" if cost_usd >= 1 else f"{about}${cost_usd:.4f}"


def _details(summary: str, body: str) -> str:
    return f"<details><summary>{summary}</summary>\n\n{body}\n\n</details>"


def _tail(output: str) -> str:
    """The end of some output as a code block; what came before it is only counted."""
    shown = visible(output).strip("\n")
    if len(shown) <= _TAIL_LIMIT:
        return code_block(shown)
    note = f"[… {len(shown) - _TAIL_LIMIT:,} characters before this …]"
    return code_block(f"{note}\n{shown[-_TAIL_LIMIT:]}")


def _head(text: str, limit: int) -> str:
    if len(text) <= limit:
        return text
    return f"{text[:limit].rstrip()}\n\n[… {len(text) - limit:,} more characters …]"


def _token(text: str) -> str:
    """A run's id as it may stand in a marker or a trailer."""
    return re.sub(r"[^A-Za-z0-9._-]", "", text)

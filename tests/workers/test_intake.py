from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from app.github.gateway import GitHubGateway
from app.github.values import RepoHandle
from app.store import DeliveryState, NewDelivery, deliveries, writing
from tests.harbour.fixtures import MakeHarbour
from tests.harbour.harbour import Harbour
from workers.intake import MAX_TRIES_UNFORESEEN, take_delivery


def record(harbour: Harbour, event: str, body: bytes, id_: str = "d-1") -> str:
    with writing(harbour.engine) as session:
        now = harbour.services.clock()
        new = NewDelivery(delivery_id=id_, event=event, body=body, received_at=now)
        assert deliveries.record(session, new)
    return id_


def test_a_delivery_that_nobody_stored_is_nothing(harbour: Harbour) -> None:
    take_delivery(harbour.services, "unknown")
    assert harbour.delivery_of("unknown") is None


def test_a_delivery_that_is_not_what_github_documents_has_failed_and_says_why(
    harbour: Harbour,
) -> None:
    take_delivery(harbour.services, record(harbour, "issues", b'{"action": "labeled"}'))
    delivery = harbour.delivery_of("d-1")
    assert delivery.state == "failed"
    assert delivery.reason


def test_a_delivery_that_is_done_is_not_done_again(harbour: Harbour) -> None:
    harbour.labels()
    labelled = next(d for d in harbour.github.deliveries if d.action == "labeled")
    before = harbour.delivery_of(labelled.guid)
    take_delivery(harbour.services, labelled.guid)
    assert harbour.delivery_of(labelled.guid) == before


def test_what_we_did_not_foresee_is_tried_a_few_times_and_then_kept_as_failed(
    make_harbour: MakeHarbour,
) -> None:
    harbour = make_harbour(drivers=0)
    harbour.tasks.is_down = True
    harbour.mona.labels(harbour.issue, "aider")
    harbour.settle()
    guid = next(d for d in harbour.github.deliveries if d.action == "labeled").guid

    class Defect(GitHubGateway):
        def permission_of(self, login: str) -> Any:
            raise KeyError(login)

    class Broken(type(harbour.services)):  # type: ignore[misc]
        def gateway(self, handle: RepoHandle) -> GitHubGateway:
            return Defect(handle, self.tokens)

    given = {f: getattr(harbour.services, f) for f in harbour.services.__dataclass_fields__}
    broken = Broken(**given)
    for _ in range(MAX_TRIES_UNFORESEEN - 1):
        take_delivery(broken, guid)
        assert harbour.delivery_of(guid).state == DeliveryState.RECEIVED
    take_delivery(broken, guid)
    delivery = harbour.delivery_of(guid)
    assert (delivery.state, delivery.reason) == ("failed", "KeyError: 'mona'")


def test_a_command_that_another_host_overtook_is_answered(
    make_harbour: MakeHarbour, tmp_path: Path
) -> None:
    """On one host those about an issue wait for each other; another host sees no lock of it."""
    harbour = make_harbour(drivers=0)
    one, two = unsent(harbour, "/aider one", "/aider two")
    other = harbour.make_services()
    elsewhere = other.settings.model_copy(update={"state_dir": tmp_path / "other"})
    other = replace(other, settings=elsewhere)
    # The first has looked for runs already when it asks who Mona is.
    harbour.github.faults.add("GET", "/permission$", delay=lambda: take_delivery(other, two))
    take_delivery(harbour.services, one)
    (reply,) = harbour.replies_on(harbour.issue)
    assert "**Drydock is already working on this" in reply
    assert [run.instruction for run in harbour.runs_of(harbour.issue)] == ["two"]
    harbour.work_with(1)
    harbour.settle()


def unsent(harbour: Harbour, *words: str) -> list[str]:
    """Return the deliveries of comments whose messages were lost, in the order of the comments."""
    harbour.tasks.is_down = True
    for each in words:
        harbour.mona.comments(harbour.issue, each)
    harbour.settle()
    harbour.tasks.is_down = False
    return [d.guid for d in harbour.github.deliveries if d.event == "issue_comment"]


def test_what_was_said_about_an_issue_is_followed_in_the_order_in_which_it_was_said(
    make_harbour: MakeHarbour,
) -> None:
    harbour = make_harbour(drivers=0)
    words = ("/aider help", "/aider status", "/aider correct it")
    helped, status, start = unsent(harbour, *words)
    # Messages overtake each other, or are lost.
    take_delivery(harbour.services, start)
    assert ["`/aider stop`" in r for r in harbour.replies_on(harbour.issue)] == [True, False]
    (run,) = harbour.runs_of(harbour.issue)
    assert run.trigger_delivery_id == start
    assert {harbour.delivery_of(guid).attempts for guid in (helped, status, start)} == {1}
    harbour.work_with(1)
    harbour.settle()


def test_a_delivery_whose_issue_another_process_has_is_taken_by_that_one(
    make_harbour: MakeHarbour,
) -> None:
    harbour = make_harbour(drivers=0)
    first, second = unsent(harbour, "/aider help", "/aider status")
    other = harbour.make_services()
    tried: list[str] = []

    def meanwhile() -> None:
        take_delivery(other, second)
        tried.append(harbour.delivery_of(second).state)

    harbour.github.faults.add("GET", "/permission$", delay=meanwhile)
    take_delivery(harbour.services, first)
    assert tried == ["received"]
    assert harbour.delivery_of(second).state == "processed"
    assert len(harbour.replies_on(harbour.issue)) == 2


def test_a_delivery_that_rests_lets_the_next_one_pass(make_harbour: MakeHarbour) -> None:
    harbour = make_harbour(drivers=0)
    harbour.tasks.is_down = True
    harbour.github.create_user("eve").comments(harbour.issue, "/aider help")
    first, second = unsent(harbour, "/aider help")
    harbour.github.faults.add("GET", "/eve/permission$", status=503, times=None)
    take_delivery(harbour.services, first)
    assert harbour.delivery_of(first).state == "received"
    assert "GitHub" in harbour.delivery_of(first).reason
    assert harbour.delivery_of(second).state == "processed"
    harbour.github.faults.clear()
    take_delivery(harbour.services, first)
    assert harbour.delivery_of(first).state == "processed"


def test_tokens_of_a_delivery_are_given_back_when_it_is_taken(make_harbour: MakeHarbour) -> None:
    harbour = make_harbour(drivers=0)
    harbour.mona.comments(harbour.issue, "/aider help")
    harbour.settle()
    tokens = [t for t in harbour.github.world.tokens.values() if t.installation is not None]
    assert tokens
    assert all(token.revoked for token in tokens)


def test_a_comment_without_a_command_asks_github_nothing(harbour: Harbour) -> None:
    harbour.issue  # noqa: B018  opened here
    harbour.settle()
    before = len(harbour.github.recorder.exchanges)
    harbour.mona.comments(harbour.issue, "I see the same.")
    harbour.settle()
    assert len(harbour.github.recorder.exchanges) == before


def test_help_status_and_mistakes_are_answered(harbour: Harbour) -> None:
    for words in ("/aider help", "/aider status", "/aider stopp", "/aider retry"):
        harbour.mona.comments(harbour.issue, words)
    harbour.settle()
    helped, status, mistake, retry = harbour.replies_on(harbour.issue)
    assert "`/aider stop`" in helped
    assert "No run is active" in status
    assert "Did you mean `/aider stop`?" in mistake
    assert "no run for this issue yet" in retry
    assert harbour.runs_of(harbour.issue) == []


def test_somebody_without_the_right_gets_one_quiet_reaction(harbour: Harbour) -> None:
    eve = harbour.github.create_user("eve")
    comment = eve.comments(harbour.issue, "/aider delete everything")
    harbour.settle()
    assert harbour.reactions_on(comment) == ["confused"]
    assert harbour.said_on(harbour.issue) == []
    assert harbour.runs_of(harbour.issue) == []


def test_a_run_is_asked_for_by_comment_and_the_comment_shows_it(harbour: Harbour) -> None:
    comment = harbour.mona.comments(harbour.issue, "/aider correct `calc.py`, please")
    harbour.settle()
    assert harbour.reactions_on(comment) == ["eyes", "rocket"]
    run = harbour.run_of()
    assert (run.asked_by, run.instruction) == ("mona", "correct `calc.py`, please")
    assert "correct `calc.py`, please" in (harbour.pull_of().body or "")

from __future__ import annotations

from app.store import runs, writing
from tests.harbour.fixtures import MakeHarbour
from tests.harbour.harbour import Harbour
from workers.succession import wake_follower


def stopped_and_followed(harbour: Harbour) -> None:
    """A run that a worker has is told to stop, and the next one is asked for."""
    harbour.mona.labels(harbour.issue, "aider")
    harbour.settle_deliveries()
    with writing(harbour.engine) as session:
        assert runs.claim(session, "somebody", 60, harbour.services.clock()) is not None
    harbour.mona.comments(harbour.issue, "/aider stop\n/aider retry")
    harbour.settle_deliveries()
    while not harbour.tasks.runs.empty():
        harbour.tasks.runs.get()


def test_the_next_run_is_enqueued_once_the_stopped_one_has_ended(
    make_harbour: MakeHarbour,
) -> None:
    harbour = make_harbour(drivers=0)
    stopped_and_followed(harbour)
    following, stopped = harbour.runs_of(harbour.issue)
    wake_follower(harbour.services, stopped)
    assert harbour.tasks.runs.get_nowait() == following.id
    wake_follower(harbour.services, following)
    assert harbour.tasks.runs.empty()


def test_a_queue_that_is_away_is_no_trouble_of_the_run_that_ends(
    make_harbour: MakeHarbour,
) -> None:
    harbour = make_harbour(drivers=0)
    stopped_and_followed(harbour)
    _, stopped = harbour.runs_of(harbour.issue)
    harbour.tasks.is_down = True
    wake_follower(harbour.services, stopped)
    harbour.tasks.is_down = False
    assert harbour.tasks.runs.empty()
    assert harbour.plans(later=60).enqueue_runs != ()

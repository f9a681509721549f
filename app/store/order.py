"""Which queued run is next (pure).

Fair between repositories: the one with the fewest runs under way goes first, and between equals
the run that has waited longest. A repository with a hundred queued runs so delays another by one
run at most.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True, order=True)
class Waiting:
    """A queued run, ordered by age; the id settles ties."""

    since: datetime
    run_id: str
    repo_id: int


def claim_order(waiting: Iterable[Waiting], under_way: Mapping[int, int]) -> Iterator[Waiting]:
    """Yield the waiting runs in the order in which they would be claimed.

    `under_way` maps a repository id to its number of runs that a worker has; the order assumes
    that none of those ends meanwhile.
    """
    queues: dict[int, list[Waiting]] = {}
    for run in sorted(waiting, reverse=True):
        queues.setdefault(run.repo_id, []).append(run)
    heap = [(under_way.get(repo, 0), queue[-1]) for repo, queue in queues.items()]
    heapq.heapify(heap)
    while heap:
        busy, run = heapq.heappop(heap)
        yield run
        queue = queues[run.repo_id]
        queue.pop()
        if queue:
            heapq.heappush(heap, (busy + 1, queue[-1]))

"""A machine that is being made beside other work."""

from __future__ import annotations

import threading
from collections.abc import Callable

from sandbox.provider import Sandbox


class Opening:
    """Makes it in a thread from the start; whoever waits for it gets it, or its error.

    The machine is killed by `close`, which waits for it first: a machine that nobody has heard of
    yet could not be ended otherwise.
    """

    def __init__(self, create: Callable[[], Sandbox]) -> None:
        self._create = create
        self._sandbox: Sandbox | None = None
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="opening", daemon=True)
        self._thread.start()

    def wait(self) -> Sandbox:
        self._thread.join()
        if self._error is not None:
            raise self._error
        if self._sandbox is None:
            raise RuntimeError("the thread that makes a machine ended without one")
        return self._sandbox

    def close(self) -> None:
        self._thread.join()
        if self._sandbox is not None:
            self._sandbox.kill()

    def _run(self) -> None:
        try:
            self._sandbox = self._create()
        except BaseException as error:  # noqa: BLE001  raised by `wait`
            self._error = error

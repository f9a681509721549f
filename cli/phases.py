"""One line per phase, with seconds, as the phases go by; a spinner where there is a terminal."""

from __future__ import annotations

import time
from collections.abc import Callable

from rich.console import Console
from rich.status import Status
from rich.text import Text

from app.messages import PHASE_WORDS
from app.states import RunState


class PhaseLines:
    """`enter` a phase, `note` what happens in it, `done` at the end (in any state)."""

    def __init__(self, console: Console, clock: Callable[[], float] = time.monotonic) -> None:
        self._console = console
        self._clock = clock
        self._words: str | None = None
        self._key = ""
        self._since = 0.0
        self._spinner: Status | None = None
        self.seconds: dict[str, float] = {}

    def enter(self, phase: RunState) -> None:
        """Begin a phase of a run."""
        self.begin(phase.value, PHASE_WORDS.get(phase, phase.value))

    def begin(self, key: str, words: str) -> None:
        """Begin any phase; the one before it is over."""
        self.done()
        self._key, self._words, self._since = key, words, self._clock()
        if self._console.is_terminal:
            self._spinner = self._console.status(Text(words))
            self._spinner.start()

    def note(self, text: str) -> None:
        """Print a line below the phase under way."""
        self._console.print(Text(f"    {text}", style="dim"))

    def done(self) -> None:
        """End the phase under way, if there is one, and print its line."""
        if self._spinner is not None:
            self._spinner.stop()
            self._spinner = None
        if self._words is None:
            return
        spent = self._clock() - self._since
        self.seconds[self._key] = self.seconds.get(self._key, 0.0) + spent
        self._console.print(Text(f"  {self._words:<24} {spent:6.1f} s"))
        self._words = None

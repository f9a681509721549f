"""What the host asks of the agent: one live stream each.

Sub-classes act on what the host sends.
"""

# ruff: noqa: B027  what most tasks need none of is empty on purpose

from __future__ import annotations

import abc

TYPE_CHECKING = False
if TYPE_CHECKING:
    from sandbox.guest.agent import Agent
if TYPE_CHECKING or __package__:
    from sandbox import protocol
else:
    import protocol

CHUNK = protocol.MAX_DATA

Fields = list[tuple[str, str]]


class Task(abc.ABC):
    """One live stream."""

    def __init__(self, agent: Agent, stream: int) -> None:
        self.agent = agent
        self.stream = stream

    @abc.abstractmethod
    def start(self, fields: Fields) -> None:
        """Begin; an OSError becomes the result."""

    def on_data(self, data: bytes) -> None:
        """Take what the host sends. Most tasks are sent nothing."""
        raise protocol.ProtocolError(f"DATA for {type(self).__name__}")

    def on_eof(self) -> None:
        """The host has nothing to add."""

    def on_credit(self) -> None:
        """More may be sent."""

    def on_end(self, *, reset: bool) -> None:
        """The host closed or reset the stream; it is already gone."""

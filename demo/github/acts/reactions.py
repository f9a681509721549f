"""Reactions: one of each kind per account. GitHub sends no webhook for them."""

from __future__ import annotations

from demo.github.errors import invalid_request
from demo.github.records import REACTIONS, Reaction, User
from demo.github.world import World


def react(
    world: World, reactions: list[Reaction], actor: User, content: str
) -> tuple[Reaction, bool]:
    """Add a reaction; return it and whether it is new. ApiError 422 for an unknown kind."""
    if content not in REACTIONS:
        known = ", ".join(f'"{one}"' for one in REACTIONS)
        raise invalid_request(f"For 'properties/content', {content} is not a member of [{known}].")
    with world.lock:
        for reaction in reactions:
            if reaction.user is actor and reaction.content == content:
                return reaction, False
        reaction = Reaction(id=world.next_id(), user=actor, content=content, created_at=world.now())
        reactions.append(reaction)
        return reaction, True

"""Commits made by GitHub from ours, so that they show as verified; see `workers.signed.send`."""

from workers.signed.send import by_github

__all__ = ["by_github"]

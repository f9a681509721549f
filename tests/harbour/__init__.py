"""Drydock as a whole in one process, so that a test reads like a conversation on GitHub."""

"""Decides and records: events, commands, briefs, policy, messages, the store and the web app."""

"""Runs inside a machine and attacks its boundary; standard library only, sent in as a folder.

    python3 -m cli.boundary.inside FACTS.json [NAME …]

Prints one JSON line for each attempt: its name, whether the boundary held, and what was seen. What
fails in a way that was not foreseen counts as not held: a broken attack proves nothing.
"""

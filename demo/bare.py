"""The floor for the webhook figures: the same server, answering 202 and doing nothing else."""

from __future__ import annotations

from flask import Flask


def make_app() -> Flask:
    """gunicorn's factory: `demo.bare:make_app()`."""
    app = Flask("demo.bare")

    @app.post("/webhooks/github")
    def accept() -> tuple[str, int]:
        return "", 202

    @app.get("/healthz")
    def alive() -> tuple[str, int]:
        return "", 200

    return app

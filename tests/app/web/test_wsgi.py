"""The application under a real gunicorn, on loopback, with a Redis that is not there."""

from __future__ import annotations

import http.client
import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.events import sign
from app.settings import SettingsError
from app.store import deliveries, is_current, make_engine, reading
from app.web.hooks import MAX_BODY_BYTES
from app.web.wsgi import make_wsgi
from tests.app.web.conftest import LABELED

BODY = json.dumps(LABELED).encode()


class Served:
    """A gunicorn process of two workers."""

    def __init__(self, root: Path) -> None:
        self.secret = secrets.token_hex(16)
        self.state_dir = root / "state"
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.log = root / "log"
        (root / "secret").write_text(self.secret)
        env = {
            "PATH": os.defpath,
            "DRYDOCK_STATE_DIR": str(self.state_dir),
            "DRYDOCK_WEBHOOK_SECRET_FILE": str(root / "secret"),
            "DRYDOCK_REDIS_URL": f"unix://{root}/no-redis.sock",
        }
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [
                    *(sys.executable, "-m", "gunicorn", "app.web.wsgi:make_wsgi()"),
                    *("--bind", f"fd://{self._listener.fileno()}"),
                    *("--workers", "2", "--worker-class", "gthread", "--threads", "4"),
                ],
                env=env,
                cwd=Path(__file__).parents[3],
                pass_fds=[self._listener.fileno()],
                stdout=log,
                stderr=log,
            )

    def ask(
        self, verb: str, path: str, body: bytes | None = None, **headers: str
    ) -> tuple[int, dict[str, object]]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            connection.request(
                verb, path, body, {k.replace("_", "-"): v for k, v in headers.items()}
            )
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read())
        finally:
            connection.close()

    def post(self, delivery: str) -> tuple[int, dict[str, object]]:
        return self.ask(
            "POST",
            "/webhooks/github",
            BODY,
            X_GitHub_Delivery=delivery,
            X_GitHub_Event="issues",
            X_Hub_Signature_256=sign(self.secret, BODY),
            Content_Type="application/json",
        )

    def wait(self) -> None:
        # The socket listens from the start, so the first question waits for a worker.
        deadline = time.monotonic() + 60
        while True:
            assert self.process.poll() is None, self.log.read_text()
            try:
                assert self.ask("GET", "/healthz") == (200, {"status": "ok"})
            except (OSError, http.client.HTTPException):
                assert time.monotonic() < deadline
            else:
                return

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(30)
        finally:
            self._listener.close()


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    made = Served(tmp_path)
    try:
        made.wait()
        yield made
    finally:
        if made.process.poll() is None:
            made.process.kill()
            made.process.wait()
        made._listener.close()


def test_a_webhook_is_stored_by_the_real_server_and_it_ends_when_told(served: Served) -> None:
    assert served.post("d-1") == (202, {"status": "stored"})
    assert served.post("d-1") == (202, {"status": "duplicate"})
    status, ready = served.ask("GET", "/readyz")
    assert status == 503
    assert isinstance(ready["checks"], dict)
    assert {name: check["ok"] for name, check in ready["checks"].items()} == {
        "database": True,
        "redis": False,
        "provider": False,
    }
    assert served.stop() == 0
    engine = make_engine(f"sqlite:///{served.state_dir}/drydock.sqlite3")
    with reading(engine) as session:
        found = deliveries.get(session, "d-1")
    assert found is not None
    assert found.body == BODY
    assert found.enqueue_failures == 2
    engine.dispose()
    logged = [json.loads(s) for s in served.log.read_text().splitlines() if s.startswith("{")]
    assert {line["event"] for line in logged} >= {"request", "enqueue_failed"}
    assert served.secret not in served.log.read_text()


def test_a_chunked_body_without_end_is_cut_off(served: Served) -> None:
    """The server answers 413 once the limit is passed, however much more would come."""
    chunk = b"10000\r\n" + b"a" * 0x10000 + b"\r\n"
    with socket.create_connection(("127.0.0.1", served.port), timeout=30) as link:
        link.sendall(
            b"POST /webhooks/github HTTP/1.1\r\nHost: localhost\r\n"
            b"Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
        )
        for _ in range(MAX_BODY_BYTES // 0x10000 + 1):
            link.sendall(chunk)
        assert link.recv(4096).startswith(b"HTTP/1.1 413 ")


def test_what_is_missing_is_said_before_anything_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in os.environ if name.startswith("DRYDOCK_")]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SettingsError, match="DRYDOCK_REDIS_URL"):
        make_wsgi()
    config = tmp_path / "other.toml"
    config.write_text(f'state_dir = "{tmp_path}"\nredis_url = "redis://127.0.0.1:1"\n')
    with pytest.raises(SettingsError, match="DRYDOCK_WEBHOOK_SECRET"):
        make_wsgi(str(config))


def test_a_database_that_is_away_at_the_start_is_a_503_and_then_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "mounted-later"
    place.write_text("not a folder yet")
    config = tmp_path / "drydock.toml"
    config.write_text(
        f'state_dir = "{tmp_path}"\nredis_url = "redis://127.0.0.1:1"\n'
        f'webhook_secret = "x"\ndatabase_url = "sqlite:///{place}/d.db"\n'
    )
    monkeypatch.chdir(tmp_path)
    client = make_wsgi(str(config)).test_client()
    assert client.get("/healthz").status_code == 200
    assert client.get("/metrics").status_code == 503
    place.unlink()
    assert client.get("/metrics").status_code == 200


def test_what_the_first_request_would_wait_for_is_done_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[object] = []
    monkeypatch.setattr("app.web.wsgi.connect_to_queue", asked.append)
    config = tmp_path / "drydock.toml"
    config.write_text(
        f'state_dir = "{tmp_path}"\nredis_url = "redis://127.0.0.1:1"\nwebhook_secret = "x"\n'
    )
    monkeypatch.chdir(tmp_path)
    # What make exports would outweigh the file.
    monkeypatch.delenv("DRYDOCK_STATE_DIR", raising=False)
    make_wsgi(str(config))
    assert len(asked) == 1
    engine = make_engine(f"sqlite:///{tmp_path}/drydock.sqlite3")
    with engine.connect() as connection:
        assert is_current(connection)
    engine.dispose()

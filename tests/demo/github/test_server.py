"""Starting, stopping, and running as a process of its own."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import requests

from demo.github import LocalGitHub
from tests.demo.github.conftest import Scene


def test_stopping_ends_every_thread_and_frees_the_port(tmp_path: Path) -> None:
    before = set(threading.enumerate())
    gh = LocalGitHub(tmp_path)
    with gh:
        assert requests.get(gh.url, timeout=10).status_code == 200
        assert set(threading.enumerate()) > before
        address = gh.url
    assert set(threading.enumerate()) == before
    with pytest.raises(requests.ConnectionError):
        requests.get(address, timeout=10)
    with gh:
        assert gh.url == address
    gh.stop()


def test_stopping_does_not_wait_for_a_client_that_says_nothing(tmp_path: Path) -> None:
    import socket

    with LocalGitHub(tmp_path) as gh:
        port = int(gh.url.rsplit(":", 1)[1])
        silent = socket.create_connection(("127.0.0.1", port))
        requests.get(gh.url, timeout=10)
    silent.close()


def test_a_taken_port_is_an_error(tmp_path: Path) -> None:
    with LocalGitHub(tmp_path / "a") as gh:
        port = int(gh.url.rsplit(":", 1)[1])
        with pytest.raises(OSError, match="in use"):
            LocalGitHub(tmp_path / "b", port=port).start()


def test_many_at_once_lose_nothing(scene: Scene) -> None:
    issue = scene.alice.opens_issue(scene.repo, "Busy")
    client = scene.client()
    path = "/repos/acme/widgets/issues/1/comments"

    def talk(number: int) -> None:
        assert client("POST", path, {"body": f"{number}"}).status_code == 201

    threads = [threading.Thread(target=talk, args=(number,)) for number in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(int(comment.body) for comment in issue.comments) == list(range(20))


def test_it_runs_as_a_process_and_ends_when_told(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "demo.github", "--root", str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        assert requests.get(f"{url}/api/v3/repos/acme/widgets", timeout=10).status_code == 200
        process.send_signal(signal.SIGTERM)
        assert process.wait(10) == 0

"""What a machine's Aider rehearses: with a run's own flags, and without its secrets."""

from __future__ import annotations

from workers.aider import AiderJob, build_argv, build_env
from workers.rehearsal import EDIT, FILE, TREE, build_warm

JOB = AiderJob(
    model="openai/some-model",
    files=("app.py",),
    test_command="make test",
    lint_command="make lint",
    route_env={"OPENAI_API_KEY": "placeholder", "OPENAI_API_BASE": "http://127.0.0.1:3128/m"},
)


def test_it_plays_with_the_flags_of_a_run() -> None:
    warm = build_warm(JOB, {"SSL_CERT_FILE": "/etc/ssl"})
    of_the_run = set(build_argv(JOB)) - set(warm.argv)
    assert of_the_run == {
        JOB.program,
        "--test-cmd=make test",
        "--auto-lint",
        "--lint-cmd=sh -c 'make lint' lint",
        "--file=app.py",
    }
    assert f"--file={FILE}" in warm.argv


def test_a_run_may_differ_from_it_in_its_route_alone() -> None:
    warm = build_warm(JOB, {"SSL_CERT_FILE": "/etc/ssl"})
    assert dict(warm.env) == {"SSL_CERT_FILE": "/etc/ssl", **build_env(JOB)}
    assert set(warm.late_env) == {"OPENAI_API_KEY", "OPENAI_API_BASE"}


def test_the_canned_edit_fits_its_file() -> None:
    searched = EDIT.split("<<<<<<< SEARCH\n")[1].split("=======")[0]
    assert searched in TREE[FILE]
    assert EDIT.startswith(FILE)

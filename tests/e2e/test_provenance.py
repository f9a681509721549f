"""From a published run to its signed statement, and back by `drydock runs verify`."""

from __future__ import annotations

import json
import os
import stat
import subprocess
from pathlib import Path

from click.testing import CliRunner

from app.settings import Settings
from cli.main import drydock
from tests.harbour.harbour import Harbour
from workers.attest import signing_key


def verify(settings: Settings, folder: Path, *args: str) -> tuple[int, str]:
    config = folder / "verify.toml"
    config.write_text(
        f'state_dir = "{settings.state_dir}"\ndatabase_url = "{settings.effective_database_url}"\n'
    )
    # What `make` exports would win over the file.
    unset = {name: None for name in os.environ if name.startswith("DRYDOCK_")}
    done = CliRunner(env=unset).invoke(drydock, ["runs", "verify", *args, "--config", str(config)])
    return done.exit_code, done.output


def test_a_published_run_carries_a_statement_that_verifies(
    harbour: Harbour, tmp_path: Path
) -> None:
    harbour.labels()
    run, settings = harbour.run_of(), harbour.services.settings
    key = settings.state_dir / "signing-key.pem"
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    kept = (harbour.folder_of(run) / "provenance.json").read_text()
    (check,) = harbour.pull_of().checks
    assert kept in (check.text or "")
    sha = run.head_sha or ""
    status, said = verify(settings, tmp_path, sha)
    assert (status, f"verified: {sha}" in said) == (0, True)
    assert f"brief_sha256: {run.brief_sha256}" in said
    status, said = verify(settings, tmp_path, sha[:10], "--json")
    assert json.loads(said)["subject"][0]["digest"]["gitCommit"] == sha
    public = tmp_path / "public.pem"
    # As the documentation has it.
    argv = ["openssl", "pkey", "-pubout", "-in", str(key), "-out", str(public)]
    subprocess.run(argv, check=True)
    copied = tmp_path / "copied.json"
    copied.write_text(kept)
    assert verify(settings, tmp_path, sha, "--key", str(public), "--file", str(copied))[0] == 0
    status, said = verify(settings, tmp_path, "0" * 40, "--file", str(copied))
    assert (status, "the statement is about" in said) == (1, True)
    copied.write_text(kept.replace('"payload": "', '"payload": "AAAA'))
    status, said = verify(settings, tmp_path, sha, "--file", str(copied))
    assert (status, "not verified" in said) == (1, True)


def test_a_commit_that_no_run_published_is_not_verified(harbour: Harbour, tmp_path: Path) -> None:
    signing_key(harbour.services.settings)
    status, said = verify(harbour.services.settings, tmp_path, "a" * 40)
    assert (status, "no run here published" in said) == (1, True)

"""Small files that machines are given by path or descriptor, kept below the state directory.

A folder is named by what is in it: it is complete or absent, never changed, and made once by
whichever process is first.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Mapping
from pathlib import Path

from sandbox.provider import ProviderFailed

__all__ = ["keep"]


def keep(parent: Path, files: Mapping[str, bytes]) -> Path:
    """Return the folder that holds these files, to be read and run by anyone; make it if needed.

    ProviderFailed when it cannot be written.
    """
    digest = hashlib.sha256(repr(sorted(files.items())).encode()).hexdigest()[:16]
    target = parent / digest
    if not target.is_dir():
        try:
            _write(target, files)
        except OSError as error:
            raise ProviderFailed(f"cannot write {target}: {error.strerror}") from error
    return target


def _write(target: Path, files: Mapping[str, bytes]) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".tmp-") as parent:
        made = Path(parent) / "made"
        made.mkdir(mode=0o755)
        for name, content in files.items():
            (made / name).write_bytes(content)
            (made / name).chmod(0o755)
        try:
            made.rename(target)
        except OSError:
            if not target.is_dir():  # else another process was quicker, with the same content
                raise

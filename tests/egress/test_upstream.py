from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from egress.upstream import tls_context
from tests.egress.upstreams import make_authority


def test_a_process_makes_one_context_and_keeps_it(tmp_path: Path) -> None:
    bundle = str(make_authority(tmp_path, "api.test").bundle)
    assert tls_context(bundle) is tls_context(bundle)
    assert tls_context(None) is tls_context(None)
    assert tls_context(bundle) is not tls_context(None)


def test_a_bundle_that_was_replaced_is_read_anew(tmp_path: Path) -> None:
    bundle = make_authority(tmp_path, "api.test").bundle
    before = tls_context(str(bundle))
    bundle.write_bytes(bundle.read_bytes() * 2)
    assert tls_context(str(bundle)) is not before


def test_a_context_verifies_names_and_chains(tmp_path: Path) -> None:
    context = tls_context(str(make_authority(tmp_path, "api.test").bundle))
    assert context.check_hostname
    assert context.verify_mode is ssl.CERT_REQUIRED


@pytest.mark.parametrize(
    ("content", "words"), [(None, "No such file"), (b"not a certificate", "NO_CERTIFICATE")]
)
def test_a_bundle_that_cannot_be_read_is_an_error_each_time(
    tmp_path: Path, content: bytes | None, words: str
) -> None:
    bundle = tmp_path / "ca.pem"
    if content is not None:
        bundle.write_bytes(content)
    for _ in range(2):
        with pytest.raises(OSError, match=words):
            tls_context(str(bundle))

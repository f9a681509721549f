"""Signed statements: what they say, and what is not believed."""

from __future__ import annotations

import base64
import json
from dataclasses import replace

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st

from app.provenance import (
    Circumstances,
    NotVerified,
    Verified,
    key_id,
    make_statement,
    sign_statement,
    verify_envelope,
)
from tests.app.test_messages import REPORT

AROUND = Circumstances(
    repo_url="https://github.example/acme/ship",
    builder_id="https://drydock.example",
    version="1",
    attempt=1,
    started_on="2026-01-01T00:00:00Z",
    finished_on="2026-01-01T00:01:00Z",
    asked_by_id=7,
    brief_sha256="b" * 64,
)
HEAD = "c" * 40
STATEMENT = make_statement(replace(REPORT, head_sha=HEAD), AROUND)
KEY = Ed25519PrivateKey.generate()


def signed() -> bytes:
    return json.dumps(sign_statement(STATEMENT, KEY)).encode()


def test_a_statement_names_head_base_person_brief_model_and_results() -> None:
    assert STATEMENT["subject"][0]["digest"] == {"gitCommit": HEAD}
    definition = STATEMENT["predicate"]["buildDefinition"]
    assert definition["externalParameters"]["asked_by"] == {"login": REPORT.asked_by, "id": 7}
    assert definition["externalParameters"]["brief_sha256"] == "b" * 64
    assert definition["resolvedDependencies"][0]["digest"]["gitCommit"] == REPORT.base_sha
    by_name = {
        each["name"]: each["annotations"]
        for each in STATEMENT["predicate"]["runDetails"]["byproducts"]
    }
    assert set(by_name) == {"tests", "gate", "egress", "spending"}
    assert by_name["tests"]["after"]["exit_code"] == 0


def test_a_signed_statement_is_verified_by_its_key() -> None:
    found = verify_envelope(signed(), KEY.public_key())
    assert found == Verified(json.loads(json.dumps(STATEMENT)), key_id(KEY.public_key()))
    assert found.head_sha == HEAD
    assert signed() == signed()


def test_another_key_a_changed_payload_or_type_is_not_believed() -> None:
    other = Ed25519PrivateKey.generate().public_key()
    assert isinstance(verify_envelope(signed(), other), NotVerified)
    for name, value in (
        ("payload", base64.b64encode(b'{"_type": "x"}').decode()),
        ("payloadType", "text/plain"),
        ("signatures", []),
    ):
        changed = {**json.loads(signed()), name: value}
        found = verify_envelope(json.dumps(changed).encode(), KEY.public_key())
        assert isinstance(found, NotVerified)


def test_something_else_that_the_key_signed_is_not_a_statement() -> None:
    for what in ({}, {"_type": "x", "predicateType": "y"}, {**STATEMENT, "subject": []}):
        data = json.dumps(sign_statement(what, KEY)).encode()
        assert isinstance(verify_envelope(data, KEY.public_key()), NotVerified)


@given(st.binary(max_size=200) | st.recursive(st.none() | st.text(), st.lists).map(json.dumps))
def test_any_bytes_are_verified_or_not(data: bytes | str) -> None:
    raw = data.encode() if isinstance(data, str) else data
    assert isinstance(verify_envelope(raw, KEY.public_key()), NotVerified)


def test_a_run_without_a_head_states_nothing() -> None:
    with pytest.raises(ValueError, match="without a head"):
        make_statement(replace(REPORT, head_sha=None), AROUND)

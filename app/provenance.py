"""Where a pull request's head came from, as a signed statement. Pure.

The statement is in-toto's, its predicate SLSA's build provenance; the envelope is DSSE with an
Ed25519 signature. The subject is the head commit; what was asked, by whom, with what and with
which results is the predicate.

Sources: https://github.com/in-toto/attestation/blob/main/spec/v1/statement.md,
https://slsa.dev/spec/v1.0/provenance,
https://github.com/secure-systems-lab/dsse/blob/master/protocol.md
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from app.report import RunReport, TestResult

STATEMENT_TYPE = "https://in-toto.io/Statement/v1"
PREDICATE_TYPE = "https://slsa.dev/provenance/v1"
PAYLOAD_TYPE = "application/vnd.in-toto+json"
BUILD_TYPE = "urn:drydock:run:v1"
MAX_ENVELOPE_BYTES = 1024 * 1024


@dataclass(frozen=True)
class Circumstances:
    """What a report does not hold. Times are RFC 3339 in UTC; `repo_url` is the web address."""

    repo_url: str
    builder_id: str
    version: str
    attempt: int
    started_on: str
    finished_on: str
    asked_by_id: int
    brief_sha256: str


@dataclass(frozen=True)
class Verified:
    """A statement whose signature holds; `key_id` is the key that it holds for."""

    statement: Mapping[str, Any]
    key_id: str

    @property
    def head_sha(self) -> str:
        return str(self.statement["subject"][0]["digest"]["gitCommit"])


@dataclass(frozen=True)
class NotVerified:
    """Why an envelope is not to be believed, in words."""

    reason: str


def make_statement(report: RunReport, around: Circumstances) -> dict[str, Any]:
    """Return the statement about a run's head. The report must have one."""
    if report.head_sha is None:
        raise ValueError("a run without a head has nothing to state")
    return {
        "_type": STATEMENT_TYPE,
        "subject": [{"name": _git_uri(around), "digest": {"gitCommit": report.head_sha}}],
        "predicateType": PREDICATE_TYPE,
        "predicate": {
            "buildDefinition": _definition(report, around),
            "runDetails": _details(report, around),
        },
    }


def _git_uri(around: Circumstances) -> str:
    return f"git+{around.repo_url}"


def _definition(report: RunReport, around: Circumstances) -> dict[str, Any]:
    base = {"uri": _git_uri(around), "digest": {"gitCommit": report.base_sha}}
    template = {"name": "template", "digest": {"sha256": report.template_digest}}
    return {
        "buildType": BUILD_TYPE,
        "externalParameters": {
            "repository": report.repo,
            "issue": report.issue_number,
            "asked_by": {"login": report.asked_by, "id": around.asked_by_id},
            "brief_sha256": around.brief_sha256,
            "base_ref": report.base_ref,
            "model": report.model,
        },
        "internalParameters": {
            "manifest_sha256": report.manifest_sha256,
            "machine": report.tier,
            "attempt": around.attempt,
        },
        "resolvedDependencies": [base, template],
    }


def _details(report: RunReport, around: Circumstances) -> dict[str, Any]:
    return {
        "builder": {"id": around.builder_id, "version": {"drydock": around.version}},
        "metadata": {
            "invocationId": report.run_id,
            "startedOn": around.started_on,
            "finishedOn": around.finished_on,
        },
        "byproducts": [
            {"name": "tests", "annotations": _results(report)},
            {"name": "gate", "annotations": {"warnings": [asdict(f) for f in report.findings]}},
            {"name": "egress", "annotations": _egress(report)},
            {"name": "spending", "annotations": asdict(report.spending)},
        ],
    }


def _results(report: RunReport) -> dict[str, Any]:
    return {
        "before": _result(report.test_before),
        "after": _result(report.test),
        "lint": _result(report.lint),
        "setup": [_result(done) for done in report.setup],
    }


def _result(test: TestResult | None) -> dict[str, Any] | None:
    if test is None:
        return None
    return {
        "command": test.command,
        "exit_code": test.exit_code,
        "seconds": round(test.seconds, 3),
        "timed_out": test.timed_out,
        "counts": asdict(test.tally) if test.tally is not None else None,
    }


def _egress(report: RunReport) -> dict[str, Any]:
    return {
        "refused": sum(line.count for line in report.refusals),
        "audit_head": report.audit_head,
    }


def sign_statement(statement: Mapping[str, Any], key: Ed25519PrivateKey) -> dict[str, Any]:
    """Return the statement in its envelope. The same statement and key give the same bytes."""
    payload = json.dumps(statement, sort_keys=True, separators=(",", ":")).encode()
    signature = key.sign(_to_be_signed(PAYLOAD_TYPE, payload))
    return {
        "payloadType": PAYLOAD_TYPE,
        "payload": base64.b64encode(payload).decode(),
        "signatures": [
            {"keyid": key_id(key.public_key()), "sig": base64.b64encode(signature).decode()}
        ],
    }


def verify_envelope(data: bytes, key: Ed25519PublicKey) -> Verified | NotVerified:
    """Return the statement in an envelope if this key signed it. Total."""
    if len(data) > MAX_ENVELOPE_BYTES:
        return NotVerified("the envelope is too large to be one of ours")
    try:
        envelope = json.loads(data)
        kind = envelope["payloadType"]
        payload = base64.b64decode(envelope["payload"], validate=True)
        signatures = [
            base64.b64decode(each["sig"], validate=True) for each in envelope["signatures"]
        ]
    except (ValueError, KeyError, TypeError, RecursionError):
        return NotVerified("that is not a DSSE envelope")
    if kind != PAYLOAD_TYPE or not any(_holds(key, each, kind, payload) for each in signatures):
        return NotVerified("no signature in it is by this key")
    return _read_statement(payload, key)


def _read_statement(payload: bytes, key: Ed25519PublicKey) -> Verified | NotVerified:
    try:
        verified = Verified(json.loads(payload), key_id(key))
        kinds = (verified.statement["_type"], verified.statement["predicateType"])
        if kinds == (STATEMENT_TYPE, PREDICATE_TYPE) and verified.head_sha:
            return verified
    except (ValueError, KeyError, TypeError, IndexError, RecursionError):
        return NotVerified("what was signed is no statement")
    return NotVerified("what was signed is another kind of statement")


def _holds(key: Ed25519PublicKey, signature: bytes, kind: str, payload: bytes) -> bool:
    try:
        key.verify(signature, _to_be_signed(kind, payload))
    except InvalidSignature:
        return False
    return True


def _to_be_signed(kind: str, payload: bytes) -> bytes:
    """DSSE's pre-authentication encoding."""
    name = kind.encode()
    return b"DSSEv1 %d %s %d %s" % (len(name), name, len(payload), payload)


def key_id(key: Ed25519PublicKey) -> str:
    """Return the SHA-256 of a public key's 32 bytes."""
    return hashlib.sha256(key.public_bytes_raw()).hexdigest()

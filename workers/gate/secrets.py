"""Secrets in what a run added: detect-secrets' patterns over added lines, and the run's canaries.

Only its pattern detectors are used, and only to look: nothing is verified over a network, no
comment in the file switches one off, and no value that was seen is kept. Entropy and keyword
guesses are left out: a gate that cries wolf is switched off.

Source: https://github.com/Yelp/detect-secrets/tree/v1.5.0/detect_secrets/plugins
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator, Sequence

from detect_secrets.plugins.artifactory import ArtifactoryDetector
from detect_secrets.plugins.aws import AWSKeyDetector
from detect_secrets.plugins.azure_storage_key import AzureStorageKeyDetector
from detect_secrets.plugins.base import RegexBasedDetector
from detect_secrets.plugins.basic_auth import BasicAuthDetector
from detect_secrets.plugins.cloudant import CloudantDetector
from detect_secrets.plugins.discord import DiscordBotTokenDetector
from detect_secrets.plugins.github_token import GitHubTokenDetector
from detect_secrets.plugins.gitlab_token import GitLabTokenDetector
from detect_secrets.plugins.jwt import JwtTokenDetector
from detect_secrets.plugins.mailchimp import MailchimpDetector
from detect_secrets.plugins.npm import NpmDetector
from detect_secrets.plugins.openai import OpenAIDetector
from detect_secrets.plugins.private_key import PrivateKeyDetector
from detect_secrets.plugins.pypi_token import PypiTokenDetector
from detect_secrets.plugins.sendgrid import SendGridDetector
from detect_secrets.plugins.slack import SlackDetector
from detect_secrets.plugins.square_oauth import SquareOAuthDetector
from detect_secrets.plugins.stripe import StripeDetector
from detect_secrets.plugins.telegram_token import TelegramBotTokenDetector
from detect_secrets.plugins.twilio import TwilioKeyDetector

from workers.gate.values import Sighting

# Patterns are tried on pieces of this length, so that a long line cannot make one take for ever.
_PIECE = 2_000
_OVERLAP = 400
_MIN_CANARY = 8


class GitHubFineGrained(RegexBasedDetector):
    secret_type = "GitHub Fine-grained Token"  # noqa: S105 -- its name
    denylist = (re.compile(r"github_pat_[A-Za-z0-9_]{22,255}"),)


class AnthropicKey(RegexBasedDetector):
    secret_type = "Anthropic API Key"  # noqa: S105 -- its name
    denylist = (re.compile(r"sk-ant-[a-z0-9]{3,12}-[A-Za-z0-9_-]{20,200}"),)


class GoogleKey(RegexBasedDetector):
    secret_type = "Google API Key"  # noqa: S105 -- its name
    denylist = (re.compile(r"AIza[0-9A-Za-z_-]{35}(?![0-9A-Za-z_-])"),)


class EncryptedPrivateKey(RegexBasedDetector):
    secret_type = "Private Key"  # noqa: S105 -- its name
    denylist = (re.compile(r"BEGIN ENCRYPTED PRIVATE KEY"),)


# A text without any of a detector's words holds nothing for it, and some patterns are slow.
_SURE: tuple[tuple[RegexBasedDetector, tuple[str, ...]], ...] = (
    (AWSKeyDetector(), ("A3T", "ABIA", "ACCA", "AKIA", "ASIA", "aws", "AWS", "Aws")),
    (AzureStorageKeyDetector(), ("AccountKey=",)),
    (GitHubTokenDetector(), ("ghp_", "gho_", "ghu_", "ghs_", "ghr_")),
    (GitHubFineGrained(), ("github_pat_",)),
    (GitLabTokenDetector(), ("gl", "GR1348941")),
    (NpmDetector(), ("_authToken",)),
    (OpenAIDetector(), ("T3BlbkFJ",)),
    (AnthropicKey(), ("sk-ant-",)),
    (GoogleKey(), ("AIza",)),
    (PrivateKeyDetector(), ("BEGIN ", "PuTTY-User-Key-File-2")),
    (EncryptedPrivateKey(), ("BEGIN ",)),
    (PypiTokenDetector(), ("pypi-",)),
    (SendGridDetector(), ("SG.",)),
    (SlackDetector(), ("xox", "XOX", "hooks.slack.com")),
    (SquareOAuthDetector(), ("sq0csp-",)),
    (StripeDetector(), ("k_live_",)),
)
# These look like much that is none: examples, test data, words.
_UNSURE: tuple[tuple[RegexBasedDetector, tuple[str, ...]], ...] = (
    (ArtifactoryDetector(), ("AKC", "AP")),
    (BasicAuthDetector(), ("://",)),
    (CloudantDetector(), ("cloudant",)),
    (DiscordBotTokenDetector(), (".",)),
    (JwtTokenDetector(), ("eyJ",)),
    (MailchimpDetector(), ("-us",)),
    (TelegramBotTokenDetector(), (":",)),
    (TwilioKeyDetector(), ("AC", "SK")),
)
_ALL = tuple((d, w, True) for d, w in _SURE) + tuple((d, w, False) for d, w in _UNSURE)
_EXAMPLE = re.compile(r"example|placeholder|dummy|x{8}|0{12}|changeme", re.IGNORECASE)


def find_secrets(lines: Sequence[tuple[int, str]]) -> tuple[Sighting, ...]:
    """Return what looks like a secret in these lines (number and text), without its value.

    The whole text is tried first: nearly always there is nothing, and then that was all.
    """
    text = "\n".join(_pieces(line for _, line in lines))
    likely = [each for each in _ALL if _holds(text, each[1]) and _found(each[0], text)]
    return tuple(
        sighting
        for detector, words, sure in likely
        for number, line in lines
        if _holds(line, words)
        for sighting in _in_line(detector, number, line, sure)
    )


def _holds(text: str, words: tuple[str, ...]) -> bool:
    return any(word in text for word in words)


def _found(detector: RegexBasedDetector, text: str) -> bool:
    return next(iter(detector.analyze_string(text)), None) is not None


def _in_line(
    detector: RegexBasedDetector, number: int, line: str, sure: bool
) -> Iterator[Sighting]:
    values = {value for piece in _pieces([line]) for value in detector.analyze_string(piece)}
    lengths = sorted({len(value) for value in values if not _EXAMPLE.search(value)})
    for length in lengths:
        yield Sighting(detector.secret_type, number, length, sure)


def _pieces(lines: Iterator[str] | Sequence[str]) -> Iterator[str]:
    for line in lines:
        if len(line) <= _PIECE:
            yield line
            continue
        for start in range(0, len(line), _PIECE - _OVERLAP):
            yield line[start : start + _PIECE]


def canary_forms(canaries: Sequence[str]) -> tuple[bytes, ...]:
    """Return each canary as it may come out: as it is, turned round, in hexadecimal, in Base64.

    Base64 has three forms, by where in a longer text the canary begins. Shorter ones than eight
    characters would be found by chance.
    """
    forms: dict[bytes, None] = {}
    for canary in canaries:
        if len(canary) >= _MIN_CANARY:
            forms.update(dict.fromkeys(_forms_of(canary.encode())))
    return tuple(forms)


def _forms_of(raw: bytes) -> Iterator[bytes]:
    yield raw
    yield raw[::-1]
    yield raw.hex().encode()
    yield raw.decode("utf-8", "replace").encode("utf-16-le")
    for shift in range(3):
        encoded = base64.b64encode(b"\0" * shift + raw)
        # The characters at both ends also depend on the neighbours.
        inner = encoded[(0, 2, 3)[shift] : (shift + len(raw)) * 8 // 6]
        yield inner
        yield inner.replace(b"+", b"-").replace(b"/", b"_")


def holds_canary(data: bytes, forms: Sequence[bytes]) -> bool:
    """Return whether any form of a canary is in the data."""
    return any(form in data for form in forms)

"""Secrets, likely secrets and the canary, each plain and disguised.

They are put together at run time, so that none stands in this file.
"""

from __future__ import annotations

import base64
import hashlib
import secrets
import string
from collections.abc import Callable, Mapping

from tests.redteam.trees.corpus.cases import R, W, commits, tree
from tests.workers.gate.conftest import Yard
from workers.gate import Allowance, Rule

T, L = Rule.SECRET, Rule.SECRET_LIKE
CANARY = f"canary-{secrets.token_hex(12)}"


def random_text(length: int, alphabet: str = string.ascii_letters + string.digits) -> str:
    return "".join(secrets.choice(alphabet) for _ in range(length))


SECRETS: Mapping[str, str] = {
    "an AWS key": "AKIA" + random_text(16, string.ascii_uppercase + "234567"),
    "a GitHub token": "ghp_" + random_text(36),
    "a fine-grained GitHub token": "github_pat_" + random_text(60),
    "a GitLab token": "glpat-" + random_text(20),
    "an OpenAI key": "sk-" + random_text(20) + "T3Blbk" + "FJ" + random_text(20),
    "an Anthropic key": "sk-ant-" + "api03-" + random_text(80),
    "a Google key": "AIza" + random_text(35),
    "a private key": "-----BEGIN RSA " + "PRIVATE KEY-----",
    "an encrypted private key": "-----BEGIN ENCRYPTED " + "PRIVATE KEY-----",
    "a Slack token": "xoxb-" + "1234567890-" + random_text(24, string.ascii_lowercase),
    "a Stripe key": "sk_" + "live_" + random_text(24),
    "a PyPI token": "pypi-AgEIcHlwaS5v" + "cmc" + random_text(80),
    "an npm token": "//r.invalid/:_auth" + "Token=npm_" + random_text(36),
    "an Azure key": "AccountKey=" + random_text(86) + "==",
    "a Square key": "sq0csp-" + random_text(43),
    "a SendGrid key": "SG." + random_text(22) + "." + random_text(43),
}
for name, value in SECRETS.items():
    tree(name, {b"src/app.py": f"x = 1\nkey = '{value}'\n".encode()}, (T, "src/app.py", R))
UNSURE: Mapping[str, str] = {
    "an Artifactory token": '"AKC' + random_text(20) + '"',
    "a Mailchimp key": random_text(32, "0123456789abcdef") + "-us12",
    "a Telegram token": "123456789:" + random_text(35),
    "a Twilio key": "SK" + random_text(32, "0123456789abcdef"),
    "a Discord token": f"M{random_text(23)}.{random_text(6)}.{random_text(27)}",
    "a password in an address": "https://me:" + random_text(12) + "@host.invalid/",
    "a JSON web token": ".".join(
        base64.urlsafe_b64encode(part).decode().rstrip("=")
        for part in (b'{"alg":"HS256"}', b'{"sub":"1"}', secrets.token_bytes(32))
    ),
}
for name, value in UNSURE.items():
    tree(name, {b"src/app.py": f"x = '{value}'\n".encode()}, (L, "src/app.py", W))
tree("a secret in UTF-16", {b"x.txt": SECRETS["a GitHub token"].encode("utf-16")},
     (T, "x.txt", R), (Rule.BINARY, "x.txt", W))  # fmt: skip
tree("a secret in a very long line",
     {b"x.js": b"a" * 90_000 + SECRETS["a Stripe key"].encode() + b"b" * 50_000},
     (T, "x.js", R))  # fmt: skip
tree("a secret in a binary", {b"x.bin": b"\0\0" + SECRETS["an AWS key"].encode()},
     (T, "x.bin", R), (Rule.BINARY, "x.bin", W))  # fmt: skip
tree("a secret that says it may be here",
     {b"x.py": f"k = '{SECRETS['a GitHub token']}'  # pragma: allowlist secret\n".encode()},
     (T, "x.py", R))  # fmt: skip
tree("an example of a key", {b"x.md": b"AKIA" + b"IOSFODNN7EXAMPLE\n"})
commits("a secret in a message",
        lambda yard: yard.change({b"a.txt": b"2"}, f"Use {SECRETS['a GitHub token']}"),
        (T, "", R))  # fmt: skip


def _secret_there_and_back(yard: Yard) -> None:
    yard.change({b"s.py": SECRETS["a GitHub token"].encode()})
    yard.change({}, drop=[b"s.py"])


commits("a secret that a later commit takes back", _secret_there_and_back, (T, "s.py", R))
for name, data in {
    "the canary": CANARY.encode(),
    "the canary in Base64": base64.b64encode(b"ab" + CANARY.encode() + b"z"),
    "the canary in hexadecimal": CANARY.encode().hex().encode(),
    "the canary turned round": CANARY.encode()[::-1],
}.items():
    tree(name, {b"x.txt": b"so: " + data + b"\n"}, (Rule.CANARY, "x.txt", R))
tree("the canary in UTF-16", {b"x.txt": CANARY.encode("utf-16-le")},
     (Rule.CANARY, "x.txt", R), (Rule.BINARY, "x.txt", W))  # fmt: skip
commits("the canary in a message", lambda yard: yard.change({b"a.txt": b"2"}, f"It is {CANARY}"),
        (Rule.CANARY, "", R))  # fmt: skip


def untold(path: bytes) -> str:
    """A name that holds a secret is told by its digest."""
    return f"(a name that is not shown, SHA-256 {hashlib.sha256(path).hexdigest()[:16]})"


def saying(message: str) -> Callable[[Yard], object]:
    return lambda yard: yard.change({b"a.txt": b"2"}, message)


for name, rule, value in (
    ("the canary", Rule.CANARY, CANARY),
    ("a secret", T, SECRETS["a GitHub token"]),
):
    path = f"src/{value}".encode()
    tree(f"{name} in a name", {path: b"x = 2\n"}, (rule, untold(path), R))
    commits(f"{name} that cleaning puts together",
            saying("Change\n\n" + "\u200b".join(value)),
            (rule, "", R))  # fmt: skip
    commits(f"{name} between what cleaning takes out",
            saying(f"Use {value[:9]}[skip ci]{value[9:]}"),
            (rule, "", R))  # fmt: skip
path = f"src/{CANARY}.bin".encode()
tree("a name with the canary has other faults as well", {path: b"\0"},
     (Rule.CANARY, untold(path), R), (Rule.BINARY, untold(path), W))  # fmt: skip
tree("another case of a name with the canary",
     {f"n/{CANARY}".encode(): b"1", f"N/{CANARY}".encode(): b"2"},
     *((rule, untold(f"{folder}/{CANARY}".encode()), R) for folder in "nN"
       for rule in (Rule.CANARY, Rule.NAME_COLLISION)))  # fmt: skip
tree("the canary in a file that is too large and was allowed",
     {b"data.txt": CANARY.encode() + b"\n" + b"harmless\n" * 700_000},
     (Rule.CANARY, "data.txt", R), (Rule.LARGE_FILE, "data.txt", W),
     allowances=(Allowance("data.txt", "boss"),))  # fmt: skip


def _a_large_file_that_becomes_small(yard: Yard) -> None:
    yard.base = yard.change({b"big.txt": b"line of data\n" * 900_000})
    yard.guest.git("update-ref", "refs/heads/big", yard.base)
    yard.mirror.git("fetch", "-q", str(yard.guest.path), "big:main")
    yard.change({b"big.txt": f"{CANARY} {SECRETS['an AWS key']}\n".encode()})


commits("a large file that becomes a small one", _a_large_file_that_becomes_small,
        (Rule.CANARY, "big.txt", R), (T, "big.txt", R))  # fmt: skip

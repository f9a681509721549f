"""What these tests share: a key as text, what is refused, a file with a text."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from app.settings import SettingsError, load_settings


def pem(key: rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey) -> str:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    ).decode()


def problems(env: Mapping[str, str], path: Path | None = None) -> tuple[str, ...]:
    with pytest.raises(SettingsError) as caught:
        load_settings(path, env)
    return caught.value.problems


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path

from __future__ import annotations

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from app.settings import (
    SettingsError,
    github_problems,
    load_settings,
    require_github,
    require_model,
)
from tests.app.settings.helpers import pem


def test_what_github_needs_is_listed_with_how_to_set_it() -> None:
    said = github_problems(load_settings(env={}))
    assert len(said) == 3
    with pytest.raises(SettingsError, match="DRYDOCK_WEBHOOK_SECRET is not set"):
        require_github(load_settings(env={}))


def test_a_complete_github_group_is_returned(rsa_pem: str) -> None:
    env = {
        "DRYDOCK_APP_ID": "5",
        # As a .env file has it.
        "DRYDOCK_PRIVATE_KEY": rsa_pem.replace("\n", "\\n"),
        "DRYDOCK_WEBHOOK_SECRET": "x",
    }
    group = require_github(load_settings(env=env))
    assert group.app_id == 5
    assert group.private_key.get_secret_value() == rsa_pem


def test_a_key_that_is_no_usable_app_key_is_told_without_its_content() -> None:
    elliptic = pem(ec.generate_private_key(ec.SECP256R1()))
    locked = (
        rsa.generate_private_key(public_exponent=65537, key_size=2048)
        .private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(b"x"),
        )
        .decode()
    )
    for key, words in ((elliptic, "not an RSA key"), (locked, "passphrase"), ("xyz", "not a PEM")):
        settings = load_settings(env={"DRYDOCK_PRIVATE_KEY": key})
        said = " ".join(github_problems(settings))
        assert "DRYDOCK_PRIVATE_KEY " in said
        assert words in said
        assert key not in said


def test_a_server_of_ones_own_may_want_no_key() -> None:
    env = {"DRYDOCK_MODEL": "openai/x", "DRYDOCK_MODEL_API_BASE": "http://127.0.0.1:9/v1"}
    assert require_model(load_settings(env=env)).api_key is None
    with pytest.raises(SettingsError, match="DRYDOCK_MODEL is not set"):
        require_model(load_settings(env={}))

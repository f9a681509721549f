"""The App's private key: read once for each process, and refused in words that show none of it."""

from __future__ import annotations

from functools import lru_cache

from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key


class UnusableKey(ValueError):
    """This is no key of a GitHub App; the text goes on after the key's name."""


# Reading one proves its primes, which takes thirty times as long as signing with it.
@lru_cache(maxsize=4)
def load_app_key(pem: str) -> RSAPrivateKey:
    """Return the key of a PEM file as GitHub gives it. UnusableKey."""
    try:
        key = load_pem_private_key(normalised_pem(pem).encode(), password=None)
    except TypeError:
        raise UnusableKey(
            "is protected by a passphrase; use the .pem file as GitHub gave it"
        ) from None
    except ValueError:
        raise UnusableKey(
            "is not a PEM private key; use the .pem file that GitHub gave for the App"
        ) from None
    if not isinstance(key, RSAPrivateKey):
        raise UnusableKey("is not an RSA key; use the .pem file that GitHub gave for the App")
    return key


def normalised_pem(pem: str) -> str:
    r"""Accept a key whose line ends were written as the two characters `\n`, as .env files do."""
    return pem.replace("\\n", "\n").strip() + "\n"

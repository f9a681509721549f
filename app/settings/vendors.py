"""The vendors of models by their names in LiteLLM, and the variables that are their own."""

from __future__ import annotations


def model_vendor(model: str) -> str | None:
    """Return the LiteLLM vendor of a model name: its prefix, or what the bare name implies."""
    prefix, slash, _ = model.partition("/")
    if slash:
        return prefix.lower()
    name = model.lower()
    if name.startswith("claude"):
        return "anthropic"
    if name.startswith(("gpt-", "chatgpt-", "o1", "o3", "o4")):
        return "openai"
    return None


def key_names(vendor: str) -> tuple[str, ...]:
    """The variables that a vendor's own tools read the key from."""
    stem = _stem(vendor)
    extra = {"GEMINI": ("GOOGLE_API_KEY",)}.get(stem, ())
    return (f"{stem}_API_KEY", *extra)


def base_names(vendor: str) -> tuple[str, ...]:
    """The variables that a vendor's own tools read the base URL from."""
    stem = _stem(vendor)
    return (f"{stem}_API_BASE", f"{stem}_BASE_URL")


def _stem(vendor: str) -> str:
    return "".join(c if c.isalnum() else "_" for c in vendor).upper()

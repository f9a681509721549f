"""Tokens and money: what a run's model calls used, and the cap that ends them.

Usage comes from the vendors' own fields, read out of the bytes as they pass and with bounded
memory; where a vendor sends none (a stream without `stream_options.include_usage`), tokens are
estimated from lengths and marked so. A model without a price has an unknown cost, never 0.
Sources: https://platform.openai.com/docs/api-reference/chat,
https://docs.anthropic.com/en/api/messages-streaming,
https://ai.google.dev/api/generate-content#UsageMetadata, LiteLLM's model price table.
"""

from __future__ import annotations

import json
import math
import re
import threading
from collections import ChainMap
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

# Both vendors' rule of thumb for English text and code.
BYTES_PER_TOKEN = 4
MAX_BUFFERED = 4 * 1024 * 1024

_TIER = re.compile(r"_above_(\d+)k_tokens$")
_PRICE_KEYS = {
    "input_cost_per_token": "input",
    "output_cost_per_token": "output",
    "cache_read_input_token_cost": "cache_read",
    "cache_creation_input_token_cost": "cache_write",
}


class BadPrices(ValueError):
    """The price table, or an operator's override, cannot be used."""


@dataclass(frozen=True)
class Price:
    """US dollars per token. `above` holds dearer rates for long prompts: (input tokens, Price)."""

    input: float
    output: float
    cache_read: float | None = None
    cache_write: float | None = None
    above: tuple[tuple[int, Price], ...] = ()

    def cost(self, tokens: Tokens) -> float:
        """Return the dollars of one call; cached input without its own rate costs as input."""
        rate = next((rate for limit, rate in self.above if tokens.all_input > limit), self)
        read = rate.input if rate.cache_read is None else rate.cache_read
        write = rate.input if rate.cache_write is None else rate.cache_write
        return (
            tokens.input * rate.input
            + tokens.cache_read * read
            + tokens.cache_write * write
            + tokens.output * rate.output
        )


@dataclass(frozen=True)
class Tokens:
    """One call's tokens. `input` is what was neither read from nor written to a cache."""

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    estimated: bool = False

    @property
    def all_input(self) -> int:
        return self.input + self.cache_read + self.cache_write


@dataclass(frozen=True)
class Usage:
    """A run's sums. `cost_usd` is None when a call had no price; `unpriced` names those models."""

    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float | None = 0.0
    calls: int = 0
    estimated: bool = False
    unpriced: tuple[str, ...] = ()


@dataclass(frozen=True)
class Reservation:
    """A call on its way, and the dollars that its prompt will cost at least (0 without a price)."""

    model: str
    price: Price | None
    usd: float


@dataclass(frozen=True)
class Cap:
    """A ceiling in dollars: whose it is, in words, and what counts against it from elsewhere.

    `setting` is what its owner, `raised_by`, raises.
    """

    name: str
    limit_usd: float
    elsewhere_usd: float = 0.0
    setting: str = ""
    raised_by: str = "The operator"


RUN_CAP = "this run"


@dataclass(frozen=True)
class OverCap:
    """The answer to a call that a cap forbids; dollars, those spent elsewhere included."""

    spent_usd: float
    cap: Cap

    @property
    def text(self) -> str:
        """Say which cap it is, and who can raise it."""
        who = f"can raise {self.cap.setting}" if self.cap.setting else "can raise it"
        return (
            f"Drydock's spending cap for {self.cap.name} is reached: ${self.spent_usd:.4f} of "
            f"${self.cap.limit_usd:.4f}. {self.cap.raised_by} {who}."
        )


class Meter:
    """Sums one run's calls and holds them to its caps. Safe between threads.

    A call is admitted while what was spent and what is on its way is below every cap, so a cap may
    be exceeded by the last calls' answers, never by a new call. A model without a price cannot be
    held to a cap in dollars. `cap_usd` is the run's own cap, `caps` are others that it shares.
    """

    def __init__(
        self,
        prices: Mapping[str, Price],
        cap_usd: float | None = None,
        caps: Sequence[Cap] = (),
    ) -> None:
        self._prices = prices
        own = () if cap_usd is None else (Cap(RUN_CAP, cap_usd, setting="DRYDOCK_BUDGET_USD"),)
        self._caps = (*own, *caps)
        self._lock = threading.Lock()
        self._reserved = 0.0
        self._spent = 0.0
        self._usage = Usage()

    def reserve(self, model: str, provider: str, request_bytes: int) -> Reservation | OverCap:
        """Admit one call, or say that the cap is reached. Every reservation must be settled."""
        price = find_price(self._prices, model, provider)
        usd = price.input * request_bytes / BYTES_PER_TOKEN if price else 0.0
        with self._lock:
            over = first_reached(self._caps, self._spent, self._reserved)
            if over is not None:
                return over
            self._reserved += usd
        return Reservation(model, price, usd)

    def settle(self, reservation: Reservation, tokens: Tokens) -> float | None:
        """Count one call; returns its dollars, or None without a price. No tokens cost nothing."""
        used = tokens.all_input + tokens.output > 0
        cost = _cost_of(reservation.price, tokens) if used else 0.0
        with self._lock:
            self._reserved = max(0.0, self._reserved - reservation.usd)
            self._spent += cost or 0.0
            self._usage = _add(self._usage, tokens, cost, reservation.model)
        return cost

    def usage(self) -> Usage:
        """Return the sums so far."""
        with self._lock:
            return self._usage


@dataclass
class UsageReader:
    """Reads one response's usage out of its bytes; all vendors' formats, streamed or not.

    Feed every chunk, then ask for `tokens`. Memory is bounded: what is longer than MAX_BUFFERED
    is counted, not kept, and the result is an estimate then.
    """

    streamed: bool
    request_bytes: int
    error: str | None = None
    _buffer: bytearray = field(default_factory=bytearray)
    _overflowed: bool = False
    _text: int = 0
    _seen: dict[str, Any] = field(default_factory=dict)
    _final: bool = False

    def feed(self, data: bytes) -> None:
        """Take one chunk, cut anywhere."""
        if not self.streamed:
            self._text += len(data)
        if self._overflowed:
            data = self._skip_line(data)
        self._buffer += data
        if self.streamed and b"\n" in data:
            self._read_lines()
        if len(self._buffer) > MAX_BUFFERED:
            self._buffer.clear()
            self._overflowed = True

    def tokens(self) -> Tokens:
        """Return what the response said it used, or an estimate."""
        if not self.streamed and not self._overflowed:
            self._note(_json_object(bytes(self._buffer)))
        seen = _tokens_of(self._seen)
        estimate = self._estimate()
        if seen is None:
            return estimate
        if self._final or not self.streamed:
            return seen
        # Only the beginning of a stream that broke off: its output count is a placeholder.
        return replace(seen, output=max(seen.output, estimate.output), estimated=True)

    def _skip_line(self, data: bytes) -> bytes:
        """Drop the rest of an overlong line (or body); a stream goes on with its next line."""
        if not self.streamed or b"\n" not in data:
            return b""
        self._overflowed = False
        return data.partition(b"\n")[2]

    def _read_lines(self) -> None:
        *lines, rest = self._buffer.split(b"\n")
        self._buffer = bytearray(rest)
        for line in lines:
            if line.startswith(b"data:"):
                self._note(_json_object(bytes(line[5:])))

    def _note(self, event: Mapping[str, Any]) -> None:
        """Take usage, text length and an error out of one event (or of the whole body)."""
        message = event.get("message")
        for holder in (message if isinstance(message, dict) else {}, event):
            usage = holder.get("usage") or holder.get("usageMetadata")
            if isinstance(usage, dict):
                self._seen |= {key: value for key, value in usage.items() if value is not None}
                self._final = holder is event
        if isinstance(event.get("error"), dict):
            self.error = str(event["error"].get("message") or event["error"].get("type"))[:300]
        self._text += _text_length(event)

    def _estimate(self) -> Tokens:
        return Tokens(
            input=math.ceil(self.request_bytes / BYTES_PER_TOKEN),
            output=math.ceil(self._text / BYTES_PER_TOKEN),
            estimated=True,
        )


def first_reached(
    caps: Sequence[Cap], spent_usd: float = 0.0, reserved_usd: float = 0.0
) -> OverCap | None:
    """Return the first cap that leaves no room for another call; None while all have some."""
    for cap in caps:
        if cap.elsewhere_usd + spent_usd + reserved_usd >= cap.limit_usd:
            return OverCap(cap.elsewhere_usd + spent_usd, cap)
    return None


def load_prices(
    path: Path, overrides: Mapping[str, Mapping[str, float]] | None = None
) -> Mapping[str, Price]:
    """Read LiteLLM's price table; `overrides` (same keys) win, model by model and key by key.

    Entries without a price per token (images, audio) are left out. BadPrices names the trouble.
    """
    table = _table(path)
    return ChainMap(_read_overrides(table.entries, overrides or {}), table.prices)


def load_entry(path: Path, *names: str) -> dict[str, Any]:
    """Return all that the same table says of the first of these models that it knows, else {}.

    BadPrices names the trouble.
    """
    entries = _table(path).entries
    found = next((entries[name] for name in names if name in entries), {})
    return deepcopy(dict(found))


class _Table(NamedTuple):
    entries: Mapping[str, Mapping[str, Any]]
    prices: dict[str, Price]


def _table(path: Path) -> _Table:
    try:
        found = path.stat()
        stamp = (found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
        return _read_table(path.resolve(), stamp)
    except (OSError, ValueError, TypeError, OverflowError, RecursionError) as error:
        raise BadPrices(f"{path} is no price table: {error}") from error


@lru_cache(maxsize=2)
def _read_table(path: Path, _stamp: tuple[int, ...]) -> _Table:
    """Read once by each process: there are thousands of models, and every run asks for one."""
    found = json.loads(path.read_bytes())
    if not isinstance(found, dict):
        raise TypeError("an object of models is expected")
    entries = {name: entry for name, entry in found.items() if isinstance(entry, dict)}
    return _Table(entries, _read_prices(entries))


def _read_overrides(
    entries: Mapping[str, Mapping[str, Any]], overrides: Mapping[str, Mapping[str, float]]
) -> dict[str, Price]:
    for name, override in overrides.items():
        _check_override(name, override)
    merged = {name: {**entries.get(name, {}), **given} for name, given in overrides.items()}
    return _read_prices(merged)


def _read_prices(entries: Mapping[str, Mapping[str, Any]]) -> dict[str, Price]:
    prices = {name: _read_price(entry) for name, entry in entries.items()}
    return {name: price for name, price in prices.items() if price is not None}


def find_price(prices: Mapping[str, Price], model: str, provider: str = "") -> Price | None:
    """Look a model up as LiteLLM does: with the provider before it, as it is, without its own."""
    names = (f"{provider}/{model}", model, model.removeprefix(f"{provider}/"))
    return next((prices[name] for name in names if name in prices), None)


def _cost_of(price: Price | None, tokens: Tokens) -> float | None:
    return None if price is None else price.cost(tokens)


def _add(usage: Usage, tokens: Tokens, cost: float | None, model: str) -> Usage:
    total = None if cost is None or usage.cost_usd is None else usage.cost_usd + cost
    unpriced = set(usage.unpriced) | ({model} if cost is None else set())
    return Usage(
        input_tokens=usage.input_tokens + tokens.all_input,
        output_tokens=usage.output_tokens + tokens.output,
        cost_usd=total,
        calls=usage.calls + 1,
        estimated=usage.estimated or tokens.estimated,
        unpriced=tuple(sorted(unpriced)),
    )


def _read_price(entry: Mapping[str, Any]) -> Price | None:
    base = _price_from(entry, "")
    if base is None:
        return None
    limits = {int(found[1]) for key in entry if (found := _TIER.search(key))}
    tiers = [
        (limit * 1000, tier)
        for limit in sorted(limits, reverse=True)
        if (tier := _price_from(entry, f"_above_{limit}k_tokens", base)) is not None
    ]
    return replace(base, above=tuple(tiers))


def _price_from(entry: Mapping[str, Any], suffix: str, base: Price | None = None) -> Price | None:
    """Read one tier; what it does not name is as in `base`. None where no input rate is known."""
    rates = {
        name: float(entry[key + suffix])
        for key, name in _PRICE_KEYS.items()
        if _is_rate(entry.get(key + suffix))
    }
    if base is None:
        if "input" not in rates or "output" not in rates:
            return None
        return Price(
            rates["input"], rates["output"], rates.get("cache_read"), rates.get("cache_write")
        )
    return Price(
        rates.get("input", base.input),
        rates.get("output", base.output),
        rates.get("cache_read", base.cache_read),
        rates.get("cache_write", base.cache_write),
    )


def _is_rate(value: object) -> bool:
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return number and math.isfinite(value) and value >= 0  # type: ignore[operator,arg-type]


def _check_override(name: str, override: Mapping[str, float]) -> None:
    for key, value in override.items():
        if _TIER.sub("", key) not in _PRICE_KEYS:
            known = ", ".join(_PRICE_KEYS)
            raise BadPrices(f"price override {name!r}: {key!r} is none of {known}")
        if not _is_rate(value):
            raise BadPrices(f"price override {name!r}: {key} = {value!r} is not dollars per token")


def _json_object(data: bytes) -> Mapping[str, Any]:
    """Parse a JSON object; anything else (`[DONE]`, a cut line) tells nothing."""
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _tokens_of(usage: Mapping[str, Any]) -> Tokens | None:
    """Read any vendor's usage; None where there is none. OpenAI counts cached input within."""
    if "prompt_tokens" in usage or "completion_tokens" in usage:
        details = usage.get("prompt_tokens_details")
        cached = _count(details.get("cached_tokens")) if isinstance(details, dict) else 0
        prompt = _count(usage.get("prompt_tokens"))
        output = _count(usage.get("completion_tokens"))
        return Tokens(max(0, prompt - cached), output, cache_read=min(cached, prompt))
    if "input_tokens" in usage or "output_tokens" in usage:
        return Tokens(
            input=_count(usage.get("input_tokens")),
            output=_count(usage.get("output_tokens")),
            cache_read=_count(usage.get("cache_read_input_tokens")),
            cache_write=_count(usage.get("cache_creation_input_tokens")),
        )
    if "promptTokenCount" in usage or "candidatesTokenCount" in usage:
        prompt = _count(usage.get("promptTokenCount"))
        cached = _count(usage.get("cachedContentTokenCount"))
        # Gemini counts what a model thinks beside its answer, and bills both as output.
        output = _count(usage.get("candidatesTokenCount")) + _count(usage.get("thoughtsTokenCount"))
        return Tokens(max(0, prompt - cached), output, cache_read=min(cached, prompt))
    return None


def _count(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        return 0
    return max(0, value)


def _text_length(event: Mapping[str, Any]) -> int:
    """Return the characters of the text that one stream event adds, in any of the formats."""
    return sum(
        len(text)
        for each in (event.get("delta"), *_deltas(event.get("choices")), *_parts(event))
        if isinstance(each, dict)
        for text in each.values()
        if isinstance(text, str)
    )


def _deltas(choices: object) -> list[Any]:
    """OpenAI's: each choice has its piece."""
    listed = choices if isinstance(choices, list) else []
    return [choice.get("delta") for choice in listed if isinstance(choice, dict)]


def _parts(event: Mapping[str, Any]) -> list[Any]:
    """Gemini's: candidates with content in parts."""
    listed = event.get("candidates")
    contents = [
        each.get("content")
        for each in (listed if isinstance(listed, list) else [])
        if isinstance(each, dict)
    ]
    found = [each.get("parts") for each in contents if isinstance(each, dict)]
    return [part for parts in found if isinstance(parts, list) for part in parts]

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from egress import meter as meter_module
from egress.meter import (
    RUN_CAP,
    BadPrices,
    Cap,
    Meter,
    OverCap,
    Price,
    Reservation,
    Tokens,
    Usage,
    UsageReader,
    find_price,
    first_reached,
    load_prices,
)

OPENAI_USAGE = {
    "prompt_tokens": 100,
    "completion_tokens": 20,
    "total_tokens": 120,
    "prompt_tokens_details": {"cached_tokens": 30},
}
ANTHROPIC_USAGE = {
    "input_tokens": 70,
    "cache_read_input_tokens": 20,
    "cache_creation_input_tokens": 10,
    "output_tokens": 5,
}


def stream(*events: object) -> bytes:
    return b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in events)


OPENAI_STREAM = (
    stream(
        {"choices": [{"delta": {"role": "assistant", "content": ""}}], "usage": None},
        {"choices": [{"delta": {"content": "Hello, wörld"}}], "usage": None},
        {"choices": [], "usage": OPENAI_USAGE},
    )
    + b"data: [DONE]\n\n"
)
ANTHROPIC_STREAM = stream(
    {"type": "message_start", "message": {"usage": {**ANTHROPIC_USAGE, "output_tokens": 1}}},
    {"type": "ping"},
    {"type": "content_block_delta", "delta": {"type": "text_delta", "text": "Hello"}},
    {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 42}},
    {"type": "message_stop"},
)


def read(data: bytes, *, streamed: bool, cuts: int = 0) -> Tokens:
    reader = UsageReader(streamed, request_bytes=400)
    step = cuts or len(data) or 1
    for at in range(0, len(data), step):
        reader.feed(data[at : at + step])
    return reader.tokens()


@given(st.integers(1, 200))
def test_usage_is_read_wherever_the_chunks_are_cut(step: int) -> None:
    openai = Tokens(input=70, output=20, cache_read=30)
    anthropic = Tokens(input=70, output=42, cache_read=20, cache_write=10)
    assert read(OPENAI_STREAM, streamed=True, cuts=step) == openai
    assert read(ANTHROPIC_STREAM, streamed=True, cuts=step) == anthropic
    whole = json.dumps({"choices": [], "usage": OPENAI_USAGE}).encode()
    assert read(whole, streamed=False, cuts=step) == openai
    whole = json.dumps({"content": [], "usage": ANTHROPIC_USAGE}).encode()
    assert read(whole, streamed=False, cuts=step) == Tokens(70, 5, 20, 10)


def test_crlf_lines_are_read_too() -> None:
    data = OPENAI_STREAM.replace(b"\n", b"\r\n")
    assert read(data, streamed=True) == Tokens(input=70, output=20, cache_read=30)


def test_a_stream_without_usage_is_estimated_and_says_so() -> None:
    data = stream({"choices": [{"delta": {"content": "x" * 40}}]}) + b"data: [DONE]\n\n"
    assert read(data, streamed=True) == Tokens(input=100, output=10, estimated=True)


def test_a_broken_off_stream_is_not_counted_by_its_first_placeholder() -> None:
    data = stream(
        {"type": "message_start", "message": {"usage": {**ANTHROPIC_USAGE, "output_tokens": 1}}},
        {"type": "content_block_delta", "delta": {"type": "text_delta", "text": "x" * 400}},
    )
    tokens = read(data, streamed=True)
    assert tokens.estimated
    assert tokens.all_input == 100
    assert tokens.output > 100


def test_an_error_in_a_stream_is_seen() -> None:
    reader = UsageReader(streamed=True, request_bytes=4)
    reader.feed(stream({"type": "error", "error": {"type": "overloaded_error", "message": "Busy"}}))
    assert reader.error == "Busy"


@pytest.mark.parametrize(
    "data", [b"", b"not json", b"[1]", b'{"usage": 5}', b'{"usage": {}}', b"\xff" * 40, b"[" * 9999]
)
@pytest.mark.parametrize("streamed", [True, False])
def test_what_says_nothing_is_estimated(data: bytes, streamed: bool) -> None:
    assert read(data, streamed=streamed).estimated


@pytest.mark.parametrize("bad", [None, -5, "many", 1.5, {}, True])
def test_a_count_that_is_none_counts_nothing(bad: object) -> None:
    usage = {"prompt_tokens": bad, "completion_tokens": 7, "prompt_tokens_details": bad}
    tokens = read(json.dumps({"usage": usage}).encode(), streamed=False)
    assert tokens.output == 7
    assert tokens.all_input == 0


def test_memory_is_bounded_and_a_stream_goes_on_after_an_overlong_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(meter_module, "MAX_BUFFERED", 1000)
    reader = UsageReader(streamed=True, request_bytes=400)
    for _ in range(100):
        reader.feed(b"x" * 500)
        assert len(reader._buffer) <= 1500
    reader.feed(b"end\n" + OPENAI_STREAM)
    assert reader.tokens() == Tokens(input=70, output=20, cache_read=30)


def test_an_overlong_body_is_estimated_by_its_length(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(meter_module, "MAX_BUFFERED", 1000)
    tokens = read(b"x" * 40_000, streamed=False, cuts=500)
    assert tokens == Tokens(input=100, output=10_000, estimated=True)


def test_cached_input_has_its_own_rates() -> None:
    price = Price(input=10, output=100, cache_read=1, cache_write=12)
    assert price.cost(Tokens(input=1, output=1, cache_read=1, cache_write=1)) == 123
    assert Price(10, 100).cost(Tokens(input=1, output=1, cache_read=1, cache_write=1)) == 130


def test_a_long_prompt_has_its_own_rates() -> None:
    price = Price(1, 1, above=((200_000, Price(3, 3)), (128_000, Price(2, 2))))
    assert price.cost(Tokens(input=128_000)) == 128_000
    assert price.cost(Tokens(input=128_001)) == 2 * 128_001
    assert price.cost(Tokens(input=100_000, cache_read=100_001)) == 3 * 200_001


def table(path: Path, **entries: Any) -> Path:
    path.write_text(json.dumps(entries))
    return path


def test_prices_are_read_from_litellms_table(tmp_path: Path) -> None:
    path = table(
        tmp_path / "prices.json",
        sample_spec={"input_cost_per_token": "text"},
        image={"input_cost_per_image": 1},
        small={"input_cost_per_token": 1e-6, "output_cost_per_token": 2e-6},
        large={
            "input_cost_per_token": 1e-6,
            "output_cost_per_token": 2e-6,
            "cache_read_input_token_cost": 1e-7,
            "cache_creation_input_token_cost": 3e-6,
            "input_cost_per_token_above_200k_tokens": 5e-6,
            "output_cost_per_token_above_200k_tokens": 6e-6,
            "cache_creation_input_token_cost_above_1hr": 9e-6,
        },
    )
    assert load_prices(path) == {
        "small": Price(1e-6, 2e-6),
        "large": Price(1e-6, 2e-6, 1e-7, 3e-6, ((200_000, Price(5e-6, 6e-6, 1e-7, 3e-6)),)),
    }


def test_an_operators_price_wins_key_by_key_and_may_name_a_new_model(tmp_path: Path) -> None:
    entry = {"input_cost_per_token": 1.0, "output_cost_per_token": 2.0}
    path = table(tmp_path / "prices.json", known=entry)
    prices = load_prices(path, {"known": {"input_cost_per_token": 5.0}, "own": entry})
    assert prices == {"known": Price(5.0, 2.0), "own": Price(1.0, 2.0)}


def test_an_override_of_a_key_that_there_is_not_is_refused(tmp_path: Path) -> None:
    path = table(tmp_path / "p.json")
    with pytest.raises(BadPrices, match="'input_cost_per_tokens' is none of input_cost_per_token"):
        load_prices(path, {"own": {"input_cost_per_tokens": 1.0}})
    load_prices(path, {"own": {"input_cost_per_token_above_200k_tokens": 1.0}})


@pytest.mark.parametrize("value", [-1, math.nan, math.inf, "1", True, None])
def test_an_override_that_is_no_price_is_refused(tmp_path: Path, value: Any) -> None:
    with pytest.raises(BadPrices, match="own"):
        load_prices(table(tmp_path / "p.json"), {"own": {"input_cost_per_token": value}})


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{", "\xff", "[" * 100_000, f'{{"m": {{"input_cost_per_token": 1{"0" * 400}}}}}'],
    ids=["empty", "list", "cut", "binary", "deep", "huge"],
)
def test_a_table_that_cannot_be_read_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "prices.json"
    path.write_text(text, encoding="latin-1")
    with pytest.raises(BadPrices, match="no price table"):
        load_prices(path)
    with pytest.raises(BadPrices):
        load_prices(tmp_path / "missing.json")


def test_a_table_that_was_replaced_is_read_again(tmp_path: Path) -> None:
    def entry(rate: float) -> dict[str, float]:
        return {"input_cost_per_token": rate, "output_cost_per_token": 1.0}

    path = table(tmp_path / "prices.json", m=entry(2.0))
    assert load_prices(path)["m"] == Price(2.0, 1.0)
    when = path.stat()
    table(tmp_path / "new.json", m=entry(9.0)).replace(path)
    os.utime(path, ns=(when.st_atime_ns, when.st_mtime_ns))
    assert load_prices(path)["m"] == Price(9.0, 1.0)


def test_a_price_is_found_with_and_without_the_provider() -> None:
    plain, prefixed, nested = Price(1, 1), Price(2, 2), Price(3, 3)
    prices = {"gpt": plain, "openai/gpt": prefixed, "deep": plain, "router/a/b": nested}
    assert find_price(prices, "gpt", "openai") is prefixed
    assert find_price(prices, "gpt", "other") is plain
    assert find_price(prices, "openai/deep", "openai") is plain
    assert find_price(prices, "a/b", "router") is nested
    assert find_price(prices, "unknown", "openai") is None


def call(meter: Meter, model: str = "m", tokens: Tokens = Tokens(input=1, output=1)) -> Any:  # noqa: B008
    reserved = meter.reserve(model, "openai", 4)
    assert isinstance(reserved, Reservation)
    return meter.settle(reserved, tokens)


def test_calls_are_summed() -> None:
    meter = Meter({"m": Price(1.0, 2.0)})
    assert call(meter) == 3.0
    assert call(meter, tokens=Tokens(1, 1, cache_read=1, estimated=True)) == 4.0
    assert meter.usage() == Usage(3, 2, 7.0, 2, estimated=True)


def test_no_price_is_unknown_and_never_nothing() -> None:
    meter = Meter({"m": Price(1.0, 2.0)}, cap_usd=100)
    assert call(meter) == 3.0
    assert call(meter, "x") is None
    usage = meter.usage()
    assert usage.cost_usd is None
    assert usage.unpriced == ("x",)


def test_a_call_without_tokens_costs_nothing_even_without_a_price() -> None:
    meter = Meter({})
    assert call(meter, "x", Tokens()) == 0.0
    assert meter.usage() == Usage(calls=1)


def test_the_cap_refuses_the_next_call_and_says_what_was_spent() -> None:
    meter = Meter({"m": Price(1.0, 2.0)}, cap_usd=4.0)
    call(meter)
    call(meter)
    assert meter.reserve("m", "openai", 4) == OverCap(
        6.0, Cap(RUN_CAP, 4.0, setting="DRYDOCK_BUDGET_USD")
    )


def test_calls_on_their_way_count_towards_the_cap() -> None:
    meter = Meter({"m": Price(1.0, 2.0)}, cap_usd=4.0)
    first = meter.reserve("m", "openai", 16)
    assert isinstance(first, Reservation)
    assert isinstance(meter.reserve("m", "openai", 4), OverCap)
    meter.settle(first, Tokens())
    assert isinstance(meter.reserve("m", "openai", 4), Reservation)


def test_a_cap_of_nothing_allows_nothing() -> None:
    assert isinstance(Meter({"m": Price(1, 1)}, cap_usd=0).reserve("m", "openai", 4), OverCap)


def test_a_cap_that_is_shared_counts_what_others_spent() -> None:
    shared = Cap("a/b today", 10.0, elsewhere_usd=9.0, setting="DRYDOCK_BUDGET_REPO_DAY_USD")
    meter = Meter({"m": Price(1.0, 1.0)}, cap_usd=100, caps=(shared,))
    first = meter.reserve("m", "openai", 4)
    assert not isinstance(first, OverCap)
    meter.settle(first, Tokens(input=1, output=1))
    over = meter.reserve("m", "openai", 4)
    assert isinstance(over, OverCap)
    assert over.text == (
        "Drydock's spending cap for a/b today is reached: $11.0000 of $10.0000. "
        "The operator can raise DRYDOCK_BUDGET_REPO_DAY_USD."
    )


def test_a_cap_with_nothing_left_is_known_beforehand() -> None:
    room, full = Cap("a", 10.0, 9.0), Cap("b", 10.0, 10.0)
    assert first_reached(()) is None
    assert first_reached((room,)) is None
    assert first_reached((room, full)) == OverCap(10.0, full)

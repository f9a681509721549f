"""Lists in pages, with GitHub's `Link` header.

See https://docs.github.com/rest/using-the-rest-api/using-pagination-in-the-rest-api
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any
from urllib.parse import urlencode

from demo.github.rest.call import Call
from demo.github.rest.routing import Answer

DEFAULT = 30
MOST = 100


def page(call: Call, items: Sequence[Any], shape: Callable[[Any], Any]) -> Answer:
    """Return the page of a list that the query asks for."""
    chosen, headers = cut(call, items)
    return Answer(200, [shape(item) for item in chosen], headers)


def counted(
    call: Call, items: Sequence[Any], shape: Callable[[Any], Any], key: str, **extra: Any
) -> Answer:
    """Return a page inside an object that also has the `total_count`."""
    chosen, headers = cut(call, items)
    shown = [shape(item) for item in chosen]
    return Answer(200, {"total_count": len(items), **extra, key: shown}, headers)


def cut(call: Call, items: Sequence[Any]) -> tuple[Sequence[Any], dict[str, str]]:
    """Return one page of the items and the headers that lead to the others."""
    size = min(max(_number(call, "per_page", DEFAULT), 1), MOST)
    number = max(_number(call, "page", 1), 1)
    last = max(1, -(-len(items) // size))
    links = _links(call, number, last)
    headers = {"Link": ", ".join(links)} if links else {}
    return items[(number - 1) * size : number * size], headers


def _number(call: Call, name: str, default: int) -> int:
    value = call.query(name)
    return int(value) if value.isascii() and value.isdigit() else default


def _links(call: Call, number: int, last: int) -> list[str]:
    wanted = []
    if number > 1:
        wanted += [("prev", min(number - 1, last)), ("first", 1)]
    if number < last:
        wanted += [("next", number + 1), ("last", last)]
    return [f'<{_address(call, to)}>; rel="{name}"' for name, to in wanted]


def _address(call: Call, number: int) -> str:
    query = {**call.request.args.to_dict(), "page": str(number)}
    return f"{call.request.base_url}?{urlencode(query)}"

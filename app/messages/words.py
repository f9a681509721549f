"""Words, numbers and forms that several messages share. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

from app.report import RunReport, Spending
from app.text import code_block, inline, quote, visible

TITLE_LIMIT = 200
_TAIL_LIMIT = 6_000
ANSWER_LIMIT = 20_000
LISTED = 50
NOTHING_CHANGED = "Nothing was pushed."
RETRY = "comment `/aider retry`"
OPERATOR = "whoever runs this Drydock"


def with_instruction(instruction: str) -> str:
    """End a sentence about who asked with what they asked for, quoted."""
    return f":\n\n{quote(head(instruction, 2000))}" if instruction.strip() else "."


def detail_words(detail: str) -> str:
    """Return a detail as it follows a sentence."""
    return f" {inline(detail, 600)}" if detail.strip() else ""


def and_more(count: int) -> tuple[str, ...]:
    """Say how many lines a list leaves out."""
    return (f"- and {count - LISTED} more",) if count > LISTED else ()


def spent(report: RunReport) -> str:
    """Return one small line about tokens and cost, where the model was called."""
    return f"<sub>{spending_words(report.spending)}</sub>" if report.spending.calls else ""


def warning_lines(warnings: Sequence[str]) -> str:
    """Return a run's warnings as a list."""
    return "\n".join(f"- ⚠️ {inline(warning, 1000)}" for warning in warnings)


def duration(seconds: float) -> str:
    """Return seconds for people: `0.8 s`, `12 s`, `3 min 05 s`, `1 h 02 min`."""
    if seconds < 9.95:
        return f"{max(0.0, seconds):.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"


def spending_words(spending: Spending) -> str:
    """Say tokens, calls and cost; an unknown price is called unknown, never zero."""
    about = "about " if spending.estimated else ""
    calls = f"{spending.calls} {'call' if spending.calls == 1 else 'calls'}"
    tokens = f"{spending.input_tokens:,} tokens in, {spending.output_tokens:,} out"
    return f"{about}{tokens} in {calls}, {cost_words(spending.cost_usd, about)}"


def cost_words(cost_usd: float | None, about: str = "") -> str:
    """Return the cost in US dollars, with cents' fractions where it is small."""
    if cost_usd is None:
        return "cost unknown (no price is known for this model)"
    return f"{about}${cost_usd:.2f}" if cost_usd >= 1 else f"{about}${cost_usd:.4f}"


def folded(summary: str, body: str) -> str:
    """Return Markdown that is shown when its summary is pressed."""
    return f"<details><summary>{summary}</summary>\n\n{body}\n\n</details>"


def tail(output: str) -> str:
    """Return the end of some output as a code block; what came before it is only counted."""
    shown = visible(output).strip("\n")
    if len(shown) <= _TAIL_LIMIT:
        return code_block(shown)
    note = f"[… {len(shown) - _TAIL_LIMIT:,} characters before this …]"
    return code_block(f"{note}\n{shown[-_TAIL_LIMIT:]}")


def head(text: str, limit: int) -> str:
    """Return the beginning of a text; what is left out is only counted."""
    if len(text) <= limit:
        return text
    return f"{text[:limit].rstrip()}\n\n[… {len(text) - limit:,} more characters …]"


def token(text: str) -> str:
    """Return a run's id as it may stand in a marker or a trailer."""
    return re.sub(r"[^A-Za-z0-9._-]", "", text)

from __future__ import annotations

import pytest

from app.tex import is_drawn


@pytest.mark.parametrize(
    "formula",
    [
        r"$a^2 + b_1 \leq \frac{1}{2}\%$",
        r"$$\begin{pmatrix} 1 & 2 \\ 3 & 4 \end{pmatrix}$$",
        r"$\left\{ x \in \mathbb{R} \mid x > 0 \right\}$",
        "$5$",
    ],
)
def test_a_formula_of_known_commands_shows_what_it_says(formula: str) -> None:
    assert is_drawn(formula)


@pytest.mark.parametrize(
    "formula",
    [
        r"$\phantom{x}$",
        r"$\moveleft 1000em {x}$",
        r"$\mathchoice{a}{x}{x}{x}$",
        r"$\eqref{x}$",
        r"$\mmlToken{mi}[mathcolor='white']{x}$",
        r"$\Space{90em}{0em}{0em} x$",
        r"$\begin{array}{@{x}c} a \end{array}$",
        r"$\unheardof{x}$",
        r"$a \\% x$",
        "$a % x\n$",
        "$a \\@x$",
    ],
)
def test_one_with_any_other_may_hide_something(formula: str) -> None:
    assert not is_drawn(formula)

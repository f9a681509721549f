"""Whether a formula on a page shows all that its source says. Pure.

TeX has many ways to draw nothing, elsewhere, or in no ink, and MathJax, which GitHub draws with,
has more; nobody here knows them all. So a formula is read only if each of its commands is known to
draw what it holds.

https://docs.mathjax.org/en/latest/input/tex/macros/index.html
"""

from __future__ import annotations

import re

_DRAWN = frozenset(
    """
    alpha beta gamma delta epsilon varepsilon zeta eta theta vartheta iota kappa lambda mu nu xi
    omicron pi varpi rho varrho sigma varsigma tau upsilon phi varphi chi psi omega Gamma Delta
    Theta Lambda Xi Pi Sigma Upsilon Phi Psi Omega frac dfrac tfrac cfrac binom sqrt sum prod int
    iint iiint oint lim limsup liminf max min sup inf arg det gcd log ln lg exp sin cos tan cot sec
    csc arcsin arccos arctan sinh cosh tanh dim ker deg Pr bmod pmod mod cdot cdots ldots dots vdots
    ddots times div pm mp ast star circ bullet oplus otimes odot wedge vee land lor lnot neg cap cup
    setminus leq geq le ge ne neq lt gt ll gg approx equiv sim simeq cong propto in notin ni subset
    supset subseteq supseteq emptyset varnothing forall exists nexists to gets mapsto rightarrow
    leftarrow leftrightarrow Rightarrow Leftarrow Leftrightarrow longrightarrow longleftarrow
    Longrightarrow implies iff uparrow downarrow infty partial nabla hbar ell Re Im aleph prime
    angle degree top bot perp parallel mid vert Vert lvert rvert lVert rVert langle rangle lceil
    rceil lfloor rfloor lbrace rbrace lbrack rbrack left right middle big Big bigg Bigg bigl bigr
    Bigl Bigr biggl biggr mathbb mathbf mathcal mathfrak mathit mathrm mathsf mathtt text textbf
    textit textrm texttt boldsymbol hat bar vec dot ddot tilde widehat widetilde overline underline
    overbrace underbrace overset underset stackrel limits nolimits substack quad displaystyle
    textstyle not
    """.split()  # noqa: SIM905 - a list of so many is not read more easily
)
_SIGNS = frozenset("\\,;:!{}_%#$&| \n")
_COMMAND = re.compile(
    r"\\(?:(?:begin|end)\{(?:[pbvBV]?matrix|cases|aligned|gathered|split)\}"
    r"|(?P<word>[A-Za-z]+)|(?P<sign>.|\Z))",
    re.DOTALL,
)


def is_drawn(formula: str) -> bool:
    """Say whether a reader sees all that is in a formula."""
    known = all(
        (found["word"] is None or found["word"] in _DRAWN)
        and (found["sign"] is None or found["sign"] in _SIGNS)
        for found in _COMMAND.finditer(formula)
    )
    # What is left of `%` begins a remark.
    return known and "%" not in _COMMAND.sub("", formula)

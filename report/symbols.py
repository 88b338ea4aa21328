"""The TeX that a formula may use: one table, read by the parser, so that anything outside it is refused.

Each symbol is ``command -> (character, class)`` with TeX's classes: ord, op (big operator), bin, rel, open, close,
punct. A command that is in none of these tables is not mathematics to us, whatever TeX would make of it.
"""

from __future__ import annotations


def _pairs(words: str) -> dict[str, str]:
    """``"alpha α beta β"`` as a table."""
    found = words.split()
    return dict(zip(found[::2], found[1::2], strict=True))


def _names(words: str) -> frozenset[str]:
    return frozenset(words.split())


def _kind(kind: str, words: str) -> dict[str, tuple[str, str]]:
    return {name: (char, kind) for name, char in _pairs(words).items()}


GREEK = _pairs(
    r"""
    alpha α beta β gamma γ delta δ epsilon ϵ zeta ζ eta η theta θ iota ι kappa κ lambda λ mu μ nu ν xi ξ omicron ο
    pi π rho ρ sigma σ tau τ upsilon υ phi ϕ chi χ psi ψ omega ω varepsilon ε vartheta ϑ varphi φ varrho ϱ varsigma
    ς Gamma Γ Delta Δ Theta Θ Lambda Λ Xi Ξ Pi Π Sigma Σ Upsilon Υ Phi Φ Psi Ψ Omega Ω
    """
)

SYMBOLS: dict[str, tuple[str, str]] = {
    **{name: (char, "ord") for name, char in GREEK.items()},
    **_kind(
        "ord",
        r"""
        infty ∞ partial ∂ nabla ∇ ell ℓ forall ∀ exists ∃ neg ¬ lnot ¬ emptyset ∅ varnothing ∅ top ⊤ bot ⊥ prime ′ dots
        … ldots … cdots ⋯ vdots ⋮ ddots ⋱ dag † checkmark ✓ square □ hbar ℏ Re ℜ Im ℑ % % _ _ # # & & $ $ | ‖ Vert ‖
        vert |
        """,
    ),
    **_kind(
        "bin",
        r"""
        cdot ⋅ times × pm ± mp ∓ ast ∗ star ⋆ circ ∘ odot ⊙ otimes ⊗ oplus ⊕ cap ∩ cup ∪ wedge ∧ land ∧ vee ∨ lor ∨
        setminus ∖ div ÷ bullet ∙
        """,
    ),
    **_kind(
        "rel",
        r"""
        le ≤ leq ≤ ge ≥ geq ≥ ne ≠ neq ≠ in ∈ notin ∉ ni ∋ subset ⊂ subseteq ⊆ supset ⊃ supseteq ⊇ equiv ≡ approx ≈ sim
        ∼ simeq ≃ cong ≅ propto ∝ to → rightarrow → leftarrow ← mapsto ↦ longmapsto ⟼ longrightarrow ⟶ Rightarrow ⇒
        Leftarrow ⇐ implies ⟹ Longrightarrow ⟹ iff ⟺ Leftrightarrow ⇔ Longleftrightarrow ⟺ leftrightarrow ↔ mid ∣
        parallel ∥ perp ⟂ ll ≪ gg ≫ prec ≺ preceq ⪯ succ ≻ succeq ⪰ models ⊨ vdash ⊢ coloneqq ≔ doteq ≐ leadsto ⇝
        uparrow ↑ downarrow ↓ gets ← lt < gt > colon :
        """,
    ),
    **_kind(
        "op",
        r"""
        sum ∑ prod ∏ bigcup ⋃ bigcap ⋂ bigoplus ⨁ bigwedge ⋀ bigvee ⋁ int ∫ coprod ∐
        """,
    ),
    **_kind(
        "open",
        r"""
        { { lbrace { langle ⟨ lfloor ⌊ lceil ⌈ lvert | lVert ‖ lbrack [
        """,
    ),
    **_kind(
        "close",
        r"""
        } } rbrace } rangle ⟩ rfloor ⌋ rceil ⌉ rvert | rVert ‖ rbrack ]
        """,
    ),
}

# Commands that LaTeX with amsmath and amssymb does not have in this spelling.
NOT_TEX = _names("omicron lt gt")

# A character that stands for itself, with its class.
CHARACTERS: dict[str, tuple[str, str]] = {
    **_kind("ord", r'/ / | | . . @ @ " " ` ‘'),
    **_kind("bin", r"+ + - − * ∗"),
    **_kind("rel", r"= = < < > > : :"),
    **_kind("open", r"( ( [ ["),
    **_kind("close", r") ) ] ] ! ! ? ?"),
    **_kind("punct", r", , ; ;"),
}

# Names of functions, upright; those in LIMITS take what stands below them as a limit.
TEX_FUNCTIONS = _names("log ln exp sin cos tan sinh cosh tanh arg max min sup inf lim det dim ker Pr gcd deg")
LIMITS = _names("max min sup inf lim argmin argmax")

SPACES = {
    ",": 0.1667,
    ":": 0.2222,
    ">": 0.2222,
    ";": 0.2778,
    "!": -0.1667,
    " ": 0.3333,
    "quad": 1.0,
    "qquad": 2.0,
    "thinspace": 0.1667,
    "enspace": 0.5,
}

ACCENTS = {
    "hat": "^",
    "widehat": "^",
    "tilde": "~",
    "widetilde": "~",
    "bar": "¯",
    "overline": "‾",
    "dot": "˙",
    "ddot": "¨",
    "vec": "→",
    "check": "ˇ",
    "underline": "_",
}
WIDE = frozenset(["widehat", "widetilde", "overline", "underline"])

VARIANTS = {
    "mathrm": "normal",
    "mathbf": "bold",
    "boldsymbol": "bold-italic",
    "bm": "bold-italic",
    "mathit": "italic",
    "mathcal": "script",
    "mathbb": "double-struck",
    "mathsf": "sans",
    "mathtt": "mono",
    "operatorname": "name",
    "mathscr": "script",
    "mathfrak": "fraktur",
}
TEXTS = frozenset(["text", "textrm", "mbox", "textit", "textbf", "texttt", "textsf"])
SIZES = _names("big Big bigg Bigg bigl bigr Bigl Bigr biggl biggr Biggl Biggr bigm Bigm")
IGNORED = frozenset(
    ["displaystyle", "textstyle", "scriptstyle", "limits", "nolimits", "nonumber", "notag", "middle", "allowbreak"]
)
ENVIRONMENTS = {
    "aligned": "rl",
    "align*": "rl",
    "split": "rl",
    "gathered": "c",
    "gather*": "c",
    "cases": "l",
    "matrix": "c",
    "pmatrix": "c",
    "bmatrix": "c",
    "vmatrix": "c",
    "smallmatrix": "c",
    "array": "c",
}
ENVIRONMENT_FENCES = {"cases": ("{", ""), "pmatrix": ("(", ")"), "bmatrix": ("[", "]"), "vmatrix": ("|", "|")}

_START = {  # where each alphabet of the Mathematical Alphanumeric Symbols starts: capitals, small, digits
    "bold": (0x1D400, 0x1D41A, 0x1D7CE),
    "italic": (0x1D434, 0x1D44E, 0),
    "bold-italic": (0x1D468, 0x1D482, 0x1D7CE),
    "script": (0x1D49C, 0x1D4B6, 0),
    "fraktur": (0x1D504, 0x1D51E, 0),
    "double-struck": (0x1D538, 0x1D552, 0x1D7D8),
    "sans": (0x1D5A0, 0x1D5BA, 0x1D7E2),
    "mono": (0x1D670, 0x1D68A, 0x1D7F6),
}
_HOLES = {
    ("script", "B"): "ℬ",
    ("script", "E"): "ℰ",
    ("script", "F"): "ℱ",
    ("script", "H"): "ℋ",
    ("script", "I"): "ℐ",
    ("script", "L"): "ℒ",
    ("script", "M"): "ℳ",
    ("script", "R"): "ℛ",
    ("script", "e"): "ℯ",
    ("script", "g"): "ℊ",
    ("script", "o"): "ℴ",
    ("double-struck", "C"): "ℂ",
    ("double-struck", "H"): "ℍ",
    ("double-struck", "N"): "ℕ",
    ("double-struck", "P"): "ℙ",
    ("double-struck", "Q"): "ℚ",
    ("double-struck", "R"): "ℝ",
    ("double-struck", "Z"): "ℤ",
    ("italic", "h"): "ℎ",
    ("fraktur", "C"): "ℭ",
    ("fraktur", "H"): "ℌ",
    ("fraktur", "I"): "ℑ",
    ("fraktur", "R"): "ℜ",
    ("fraktur", "Z"): "ℨ",
}
_BOLD_GREEK = {  # small letters, then capitals, of the bold italic alphabet
    **{chr(0x3B1 + n): chr(0x1D736 + n) for n in range(25)},
    **{chr(0x391 + n): chr(0x1D71C + n) for n in range(25)},
}


def variant(char: str, style: str) -> str:
    """The character of an alphabet (browsers follow no ``mathvariant`` but ``normal``)."""
    if (style, char) in _HOLES:
        return _HOLES[style, char]
    if style in ("bold", "bold-italic") and char in _BOLD_GREEK:
        return _BOLD_GREEK[char]
    if style not in _START or not char.isascii():
        return char
    capital, small, digit = _START[style]
    if "A" <= char <= "Z":
        return chr(capital + ord(char) - ord("A"))
    if "a" <= char <= "z":
        return chr(small + ord(char) - ord("a"))
    if char.isdigit() and digit:
        return chr(digit + ord(char) - ord("0"))
    return char

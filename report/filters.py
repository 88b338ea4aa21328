r"""Data is data: escaping for HTML and for TeX, and numbers as a reader wants them.

    escape_tex("100% of a_b")  ->  100\% of a\_b

No string from a record or from the theorem table reaches an output except through one of these functions, or through
the parser of :mod:`report.tex_mathml` where it claims to be a formula.
"""

from __future__ import annotations

import html
import math
import re
import unicodedata
from typing import Any

from report import symbols

_TEX = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "#": r"\#", "%": r"\%", "_": r"\_",
    "^": r"\textasciicircum{}", "~": r"\textasciitilde{}", "<": r"\textless{}", ">": r"\textgreater{}",
    "|": r"\textbar{}", '"': '{"}', "`": r"\textasciigrave{}", "-": "{-}", "\u00a0": "~",
    "–": "--", "—": "---", "…": r"\ldots{}", "“": "``", "”": "''", "‘": "`", "’": "'", "·": r"\textperiodcentered{}",
    "−": r"\ensuremath{-}", "²": r"\textsuperscript{2}", "½": r"\textonehalf{}", "¼": r"\textonequarter{}",
    "ᵀ": r"\textsuperscript{T}", "§": r"\S{}", "é": r"\'e", "è": r"\`e", "ß": r"\ss{}", "∇": r"\ensuremath{\nabla}",
    "ä": r"\"a", "ö": r"\"o", "ü": r"\"u", "✓": r"\ensuremath{\checkmark}", "\u202f": r"\,",
    **{char: rf"\textsuperscript{{{plain}}}" for char, plain in zip("⁰¹³⁴⁵⁶⁷⁸⁹⁻", "013456789-", strict=True)},
}  # fmt: skip
_TEX |= {
    char: rf"\ensuremath{{\{name}}}"
    for name, (char, _) in symbols.SYMBOLS.items()
    if not char.isascii() and char not in _TEX and name not in symbols.NOT_TEX
}
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff]")


def clean(value: object) -> str:
    """A string without control characters and without marks that turn the reading direction."""
    return _CONTROL.sub("\N{REPLACEMENT CHARACTER}", str(value))


def escape_html(value: object) -> str:
    """Text for HTML, in content and in quoted attributes."""
    return html.escape(clean(value), quote=True)


def escape_tex(value: object) -> str:
    """Text for TeX; what the paper's fonts lack is shown by its name."""
    out: list[str] = []
    for char in clean(value):
        if char in _TEX:
            out.append(_TEX[char])
        elif char.isascii():
            out.append(char)
        else:
            plain = unicodedata.normalize("NFKD", char).encode("ascii", "ignore").decode()
            out.append(plain if plain.isalnum() else f"[{unicodedata.name(char, hex(ord(char))).lower()}]")
    return "".join(out)


def code_tex(value: object) -> str:
    """Names and paths in typewriter type, with places where a line may break."""
    escaped = escape_tex(value)
    breakable = re.sub(r"(\\_|[./:,=(]|\{-\})(?=.)", r"\1\\allowbreak{}", escaped)
    return rf"\texttt{{{breakable}}}"


def number(value: Any, digits: int = 3) -> str:
    """A figure with ``digits`` significant digits; a missing one is a dash, never a zero."""
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}".replace(",", "\u202f") if abs(value) >= 10000 else str(value)
    if not isinstance(value, float):
        return str(value)
    if math.isnan(value) or math.isinf(value):
        return "not a number" if math.isnan(value) else "∞" if value > 0 else "−∞"
    if value == 0:
        return "0"
    magnitude = math.floor(math.log10(abs(value)))
    if -4 <= magnitude < 6:
        shown = f"{value:.{max(digits - 1 - magnitude, 0)}f}"
        return shown.replace("-", "−")
    mantissa, exponent = f"{value:.{digits - 1}e}".split("e")
    superscript = str(int(exponent)).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
    return f"{mantissa}×10{superscript}".replace("-", "−")

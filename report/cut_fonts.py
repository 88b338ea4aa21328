"""Cut the embedded fonts out of TeX Gyre Pagella: ``python -m report.cut_fonts FOLDER`` (by hand, not by the report).

FOLDER holds ``texgyrepagella-{regular,italic,bold}.otf`` and ``texgyrepagella-math.otf`` as TeX Live or a package of a
distribution ships them; writing woff2 needs the ``brotli`` package. The cuts are renamed, as their licence asks.
"""

from __future__ import annotations

import string
import sys
from pathlib import Path

from fontTools.subset import Options, Subsetter
from fontTools.ttLib import TTFont

from report import symbols

OUT = Path(__file__).parent / "assets" / "fonts"
LATIN = (
    string.printable
    + "äöüßéèêáàâîïôóúñçÄÖÜ–—…‘’“”«»·×±−°§¶†≤≥≠≈→←↑↓∞∈∑∂√αβγδεηθλμπρστφχψωΓΔΘΛΣΦΨΩ\u00a0\u2009\u202f¼½¾⁰¹²³⁴⁵⁶⁷⁸⁹⁻"
)


def mathematics() -> str:
    """Every character that a formula of the report can come to contain."""
    letters = string.ascii_letters + string.digits + "".join(symbols.GREEK.values())
    styles = ("bold", "italic", "bold-italic", "script", "double-struck", "sans", "mono", "fraktur")
    styled = "".join(symbols.variant(char, style) for char in letters for style in styles)
    italic_greek = "".join(chr(0x1D6E2 + n) for n in range(58))
    single = "".join(char for char, _ in (*symbols.SYMBOLS.values(), *symbols.CHARACTERS.values()))
    accents = "".join(symbols.ACCENTS.values()) + "\u0302\u0303\u0304\u0305\u0307\u0308\u20d7\u030c\u0332"
    return LATIN + letters + styled + italic_greek + single + accents + "′″‴⏞⏟≔≮≯√ıȷ𝚤𝚥"


def cut(source: Path, name: str, text: str, family: str) -> Path:
    """Write the subset of one font. Raises OSError where the font cannot be read."""
    options = Options()
    options.flavor = "woff2"
    options.layout_features = ["*"]
    options.name_IDs = [0, 1, 2, 4, 6, 13, 14]
    options.hinting = False
    options.desubroutinize = True
    font = TTFont(source)
    worker = Subsetter(options)
    worker.populate(text=text)
    worker.subset(font)
    for record in font["name"].names:
        if record.nameID in (1, 4, 6):
            record.string = family if record.nameID != 6 else family.replace(" ", "")
    font.flavor = "woff2"
    font["head"].modified = font["head"].created  # the same cut is the same file
    font.recalcTimestamp = False
    target = OUT / f"{name}.woff2"
    font.save(target)
    return target


def main(arguments: list[str]) -> int:
    """Cut every font; returns the exit status."""
    if len(arguments) != 1 or not Path(arguments[0]).is_dir():
        print("python -m report.cut_fonts: expected the folder that holds texgyrepagella-*.otf", file=sys.stderr)
        return 2
    folder = Path(arguments[0])
    for style in ("regular", "italic", "bold"):
        target = cut(folder / f"texgyrepagella-{style}.otf", f"text-{style}", LATIN, f"Bayesgrad Text {style.title()}")
        print(target, target.stat().st_size)
    target = cut(folder / "texgyrepagella-math.otf", "mathematics", mathematics(), "Bayesgrad Mathematics")
    print(target, target.stat().st_size)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

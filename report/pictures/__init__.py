"""A small picture for every result, drawn from the formulas by the shipped functions where these exist.

``@picture(label, caption)`` enters a function that returns a :class:`report.draw.Canvas`. The examples are made up to
show a shape; no experiment stands behind them, and each caption says what is seen.
"""

from report.pictures import bayes, dynamics, em, head, projections  # they fill the table
from report.pictures.table import PICTURES, Picture, picture

__all__ = ["PICTURES", "Picture", "bayes", "dynamics", "em", "head", "picture", "projections"]

"""The admitted primitives: every inference that a proof may use, with its side condition. None mentions attention.

This is the table that the report prints; the kernel runs the functions of
``bayesgrad.symbolic.rules`` and names them so.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Primitive:
    """One admitted rule: its name, its formula (TeX) and when it applies."""

    name: str
    formula: str
    condition: str


TABLE: dict[str, Primitive] = {
    p.name: p
    for p in (
        Primitive(
            "algebra",
            r"xy=yx,\; \sum_j (x_j+y_j)=\sum_j x_j+\sum_j y_j,\; e^{x+y}=e^x e^y",
            "finite sums of real terms",
        ),
        Primitive("delta", r"\sum_j \delta_{ij} f_j = f_i", "i lies in the range of j, which both types say"),
        Primitive("definition", r"T_{i\ldots} = \mathrm{body}(i,\ldots)", "T was defined so, and only once"),
        Primitive("rewrite", r"x=y \Rightarrow C[x]=C[y]", "x = y is a hypothesis or was proved before"),
        Primitive("hypothesis", r"x=y", "listed among the assumptions of the result"),
        Primitive("d-independent", r"\partial x/\partial T = 0", "x does not mention T, inside definitions either"),
        Primitive(
            "d-entry", r"\partial T_{ij}/\partial T_{kl} = \delta_{ik}\delta_{jl}", "entries of T are independent"
        ),
        Primitive("d-sum", r"\partial \sum_j x_j = \sum_j \partial x_j", "finite sums; the bound index is made new"),
        Primitive("d-product", r"\partial(xy) = (\partial x)\,y + x\,\partial y", "none"),
        Primitive("d-exp", r"\partial e^x = e^x\,\partial x", "none"),
        Primitive("d-log", r"\partial \log x = \partial x / x", "x > 0 by the kinds of its parts"),
        Primitive("d-inv", r"\partial x^{-1} = -x^{-2}\,\partial x", "x > 0, or x = 0 identically (then 1/x := 0)"),
        Primitive(
            "d-chain",
            r"\partial L/\partial T = \sum_r (\partial L/\partial g_r)\,\partial g_r/\partial T",
            "L is differentiable and depends on T through g alone",
        ),
        Primitive(
            "d-through",
            r"\partial F/\partial T = \sum_r (\partial F/\partial s_r)\,\partial s_r/\partial T",
            "F depends on T through the entries of s alone",
        ),
        Primitive(
            "nonnegative",
            r"x=\sum_r w_r y_r,\; w_r,y_r\ge 0 \Rightarrow x\ge 0",
            "each factor is a square, an exp, a declared nonnegative, or the gap of a proved inequality",
        ),
        Primitive("vanishing-sum", r"\sum_r w_r y_r = 0 \Rightarrow y_r = 0", "every w_r > 0 and every y_r >= 0"),
        Primitive(
            "single-minimum",
            r"f(t_0)=0,\; f'(t)(t-t_0)>0\ (t\ne t_0) \Rightarrow f(t)>0\ (t\ne t_0)",
            "f is differentiable on t > 0",
        ),
        Primitive("instance", r"\forall T.\,P(T) \Rightarrow P(x)", "x has the kind that T was declared with"),
        Primitive("witness", r"P(x) \text{ computed exactly}", "x is written out; rational numbers or certified balls"),
        Primitive("induction", r"P_1,\; P_t\Rightarrow P_{t+1} \;\Rightarrow\; \forall t.\,P_t", "t = 1, 2, ..."),
    )
}

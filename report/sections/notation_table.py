"""Notation as equations, beside the names that others use."""

from __future__ import annotations

from report.context import Context
from report.document import Display, Line, Math, Msg, Para, Section, Table, Text, prose

EQUATIONS = (
    r"q_i = x_i W_Q, \qquad k_j = x_j W_K, \qquad v_j = x_j W_V",
    r"s_{ij} = \mathrm{scale}\; q_i \cdot k_j + \mathrm{bias}_{ij}, \qquad "
    r"a_{ij} = \frac{e^{s_{ij}}}{\sum_{k\ \text{visible to}\ i} e^{s_{ik}}}",
    r"g_i = \sum_j a_{ij} v_j, \qquad z_i = g_i W_O + c_O, \qquad p_i = \operatorname{softmax}(z_i)",
    r"L = \sum_i w_i \left(-\log p_i[y_i]\right), \qquad u_i = \frac{\partial L}{\partial g_i}",
    r"b_{ij} = u_i \cdot v_j, \qquad \bar b_i = \sum_k a_{ik} b_{ik}, \qquad A_{ij} = \bar b_i - b_{ij}",
)

# ours, meaning, the papers, PyTorch, FlashAttention
NAMES = (
    (r"s_{ij}", "score", "$s_{ij}$", "`attn_weight` before `softmax`", "$S$"),
    (r"a_{ij}", "weight", r"$\alpha_{ij}$", "`attn_weight` after `softmax`", "$P$"),
    (r"g_i", "context", "not named here", "the output of `scaled_dot_product_attention`", "$O$"),
    (r"u_i", "upstream gradient", "$u_i$", "`grad_output`", "$dO$"),
    (r"b_{ij}", "compatibility", r"$b_{ij} = u_i^{\top} v_j$", "not named", "$dP$"),
    (r"\bar b_i", "mean compatibility", r"$\mathbb{E}_{\alpha_i}[b]$", "not named", "$D$ or `delta`"),
    (r"A_{ij}", "advantage", r"minus $(b_{ij} - \mathbb{E}_{\alpha_i}[b])$", "not named", "not named"),
    (r"\partial L/\partial s_{ij}", "score gradient", r"$\partial L/\partial s_{ij}$", "not named", "$dS$"),
    (r"\eta", "step size", r"$\eta$", "`lr`", "not named"),
    (r"\mathrm{scale}", "scale of the scores", "not named here", "`scale`", "`softmax_scale`"),
)


def build(context: Context) -> Section:
    """The section."""
    header: tuple[Line, ...] = tuple(
        (Msg(f"column.{name}"),) for name in ("meaning", "ours", "papers", "pytorch", "flash")
    )
    rows: list[tuple[Line, ...]] = []
    for ours, meaning, *others in NAMES:
        rows.append(((Text(meaning),), (Math(ours),), *(prose(name) for name in others)))
    return Section(
        "notation",
        (Msg("heading.notation"),),
        (
            Para((Msg("summary.notation"),), kind="lead"),
            *(Display(equation) for equation in EQUATIONS),
            Para(
                prose(
                    r"""Vectors are rows, one per position: queries $i, l = 1, \dots, n$; keys $j, k = 1, \dots, m$;
                    classes $c = 1, \dots, C$. The scale is $1/\sqrt{d_k}$ unless said otherwise, and it does not
                    touch the bias. A pair that is not visible has $a_{ij} = 0$ exactly. A query that sees no key
                    has $a_i = 0$, $g_i = 0$ and zero gradients: a convention, not a limit, and statements about
                    distributions leave that row out. A weight $w_i$ is 1 (sum) or $1/N$ (mean over the $N$
                    positions that count); an ignored position has $w_i = 0$."""
                )
            ),
            Para(
                prose(
                    r"""Mind the sign: descent *raises* a score where $A_{ij} > 0$, that is where $b_{ij}$ lies below
                    the row's mean. A negative $b_{ij}$ alone says nothing. In masks, `True` means *may attend*,
                    as in `scaled_dot_product_attention` and unlike `MultiheadAttention`, whose masks mark what to
                    ignore."""
                )
            ),
            Table(
                header, tuple(rows), "lllll", (Msg("caption.notation"),), name="notation", widths=(1.5, 1, 1.6, 2, 1.2)
            ),
        ),
    )

"""The kernels, and what each package says that they do.

A claim stands here because the package documents it, not because the kernel passes it: what is documented and fails is
a finding. ``note`` says where a claim comes from, or why something is not asked.
"""

from __future__ import annotations

from dataclasses import dataclass, field

WRAPPERS, TRITON = "checks/gallery/wrappers.py", "checks/gallery/interpreted.py"


@dataclass(frozen=True)
class Entry:
    """``kernel``: what the judge imports; ``requires``: pip's names with versions; ``examples``: so many blocks
    of the covering design, taken evenly, beside all corners."""

    name: str
    kernel: str
    requires: tuple[str, ...]
    framework: str
    claims: str
    layout: str = "bhnd"
    names: str = ""
    options: str = ""
    examples: int = 48
    note: str = ""
    env: dict[str, str] = field(default_factory=dict)
    upstream: dict[str, str] = field(default_factory=dict)

    def arguments(self) -> list[str]:
        """The arguments of ``python -m bayesgrad.testing``."""
        made = ["--forward", self.kernel, "--framework", self.framework, "--layout", self.layout]
        made += ["--claims", self.claims]
        for flag, value in (("--names", self.names), ("--with", self.options)):
            made += [flag, value] if value else []
        return [*made, "--examples", str(self.examples)] if self.examples else made


TORCH = "torch==2.13.0"
ENTRIES = (
    Entry(
        "torch SDPA",
        "torch.nn.functional:scaled_dot_product_attention",
        (TORCH,),
        "torch",
        "masks=any,groups,dtypes=float64+float32+bfloat16",
        names="mask=attn_mask",
        options="enable_gqa=True",
        note="attn_mask: True takes part in attention; enable_gqa groups the heads; every floating dtype",
    ),
    Entry(
        "torch SDPA, is_causal",
        "torch.nn.functional:scaled_dot_product_attention",
        (TORCH,),
        "torch",
        "masks=causal-upper-left,dtypes=float64+float32",
        options="is_causal=True",
        note="documented as tril(diagonal=0): the first query at the first key",
        upstream={
            "float32: small blocks": "scaled_dot_product_attention: is_causal=True gives NaN for a negative scale"
        },
    ),
    Entry(
        "nn.MultiheadAttention",
        f"{WRAPPERS}:multihead",
        (TORCH,),
        "torch",
        "masks=any,equal_widths,scale=no,dtypes=float64+float32",
    ),
    Entry(
        "ring_flash_attn, causal",
        "ring_attention_pytorch.ring_flash_attention:ring_flash_attn",
        (TORCH, "ring-attention-pytorch==0.5.20"),
        "torch",
        "masks=causal-lower-right,equal_widths,scale=no,dtypes=float32",
        "bnhd",
        options="causal=True",
        note="its forward pass puts the last query at the last key (qk_len_diff)",
        upstream={"float32: small blocks": "causal=True: the backward pass ignores the difference of lengths"},
    ),
    Entry(
        "ring_flash_attn",
        "ring_attention_pytorch.ring_flash_attention:ring_flash_attn",
        (TORCH, "ring-attention-pytorch==0.5.20"),
        "torch",
        "masks=keys,equal_widths,scale=no,dtypes=float32",
        "bnhd",
    ),
    Entry(
        "memory_efficient_attention",
        "memory_efficient_attention_pytorch.memory_efficient_attention:memory_efficient_attention",
        (TORCH, "memory-efficient-attention-pytorch==0.1.6"),
        "torch",
        "masks=keys,scale=no,dtypes=float64+float32",
        options="q_bucket_size=64,k_bucket_size=64",
        upstream={"float64: small blocks": "eps = 1e-8 in the denominator is a relative error of 1e-8 in float64"},
    ),
    Entry(
        "memory_efficient FlashAttention, causal",
        f"{WRAPPERS}:two_tiles",
        (TORCH, "memory-efficient-attention-pytorch==0.1.6"),
        "torch",
        "masks=keys+causal-lower-right,equal_widths,scale=no,dtypes=float64+float32",
        options="causal=True",
        note="the hand-written backward pass. The package's own plain attention puts the last query at the last key "
        "(triu(j - i + 1)); float64 raises, finfo.max of it being too large for a float32 accumulator",
        upstream={
            "float32: small blocks": "FlashAttention(causal=True): with m > n the offset of the mask has the wrong sign"
        },
    ),
    Entry(
        "flash-attention-jax",
        f"{WRAPPERS}:jax_flash",
        ("jax==0.10.2", "flash-attention-jax==0.3.1"),
        "jax",
        "masks=keys,scale=no,equal_widths,fixed_shapes,largest=1100,widest=64,dtypes=float32",
        examples=9,
        note="custom_vjp; no limit of the length is documented, its chunks have 1024. With d_v != d_k, for which its "
        "forward pass provides, the backward pass raises: not asked here",
        upstream={"float32: design": "lengths above 1024 that are no multiple of 1024 have a result of another shape"},
    ),
    Entry(
        "flash-attention-jax, causal",
        "flash_attention_jax:causal_flash_attention",
        ("jax==0.10.2", "flash-attention-jax==0.3.1"),
        "jax",
        "masks=causal-lower-right,scale=no,equal_widths,fixed_shapes,widest=64,dtypes=float32",
        examples=9,
    ),
    Entry(
        "keras.ops.dot_product_attention",
        f"{WRAPPERS}:keras",
        (TORCH, "keras==3.15.1"),
        "torch",
        "masks=any,dtypes=float64+float32",
        "bnhd",
        note="on its PyTorch backend; the result has the dtype of the query",
        upstream={"float64: small blocks": "float64 tensors give a float32 result on the PyTorch backend"},
    ),
    Entry(
        "jax.nn.dot_product_attention",
        "jax.nn:dot_product_attention",
        ("jax==0.10.2",),
        "jax",
        "masks=any,equal_widths,groups,fixed_shapes,widest=64,dtypes=float64+float32",
        "bnhd",
        examples=24,
        upstream={"float64: small blocks": "the softmax of float64 is taken in float32"},
    ),
    Entry(
        "mlx.fast SDPA",
        f"{WRAPPERS}:mlx",
        ("mlx[cpu]==0.32.4",),
        "mlx",
        "masks=any,groups,dtypes=float32+float16",
    ),
    Entry(
        "tinygrad SDPA",
        f"{WRAPPERS}:tinygrad",
        ("tinygrad==0.14.0",),
        "tinygrad",
        "masks=any,scale=no,largest=5,widest=4,dtypes=float32,seconds=60",
        examples=8,
        note="on its device in Python, which needs no compiler, so small blocks only",
        env={"DEV": "PYTHON"},
    ),
    Entry(
        "autograd",
        f"{WRAPPERS}:with_autograd",
        ("autograd==1.9.1",),
        "autograd",
        "masks=any,dtypes=float64+float32,largest=65",
        note="attention as one writes it with its NumPy and logsumexp",
    ),
    Entry(
        "transformers, Llama eager",
        f"{WRAPPERS}:llama",
        (TORCH, "transformers==5.24.0"),
        "torch",
        "masks=any,groups,dtypes=float32+bfloat16",
    ),
    Entry(
        "fla naive_parallel_attn",
        f"{WRAPPERS}:naive",
        (TORCH, "fla-core==0.6.0", "packaging", "triton==3.9.0"),
        "torch",
        "masks=causal,square,groups,dtypes=float32,seconds=120",
        "bnhd",
    ),
    Entry(
        "fla parallel_attn (Triton)",
        f"{TRITON}:parallel",
        (TORCH, "fla-core==0.6.0", "packaging", "triton==3.9.0"),
        "torch",
        "masks=causal,square,groups,sink=gradient,largest=65,widest=72,dtypes=float32,strided=no,seconds=120",
        "bnhd",
        examples=20,
        note="run by Triton's interpreter; asks for contiguous tensors",
    ),
    Entry(
        "fla parallel_attn, window 5 (Triton)",
        f"{TRITON}:parallel",
        (TORCH, "fla-core==0.6.0", "packaging", "triton==3.9.0"),
        "torch",
        "masks=window,window=4:0,square,groups,largest=65,widest=72,dtypes=float32,strided=no,seconds=120",
        "bnhd",
        options="window_size=5",
        examples=12,
        note="keys in [i - window_size + 1, i]; run by Triton's interpreter",
    ),
    Entry(
        "liger neighbourhood (Triton)",
        f"{TRITON}:neighbourhood",
        (TORCH, "liger-kernel==0.8.5", "triton==3.9.0"),
        "torch",
        "masks=window,window=3:3,square,equal_widths,largest=65,widest=64,dtypes=float32,strided=no,seconds=120",
        examples=12,
        note="run by Triton's interpreter",
    ),
)

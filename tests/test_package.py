"""The public surface, what an import costs, what the command line says, and who may import what."""

from __future__ import annotations

import inspect
import json
import pkgutil
import subprocess
import sys

import pytest

import bayesgrad as bg
from bayesgrad import __main__ as command

SURFACE = [
    "Attention",
    "AttentionGradients",
    "AttentionParameters",
    "BlockParameters",
    "LayerGradients",
    "LayerOptions",
    "attention_layer_gradients",
    "transformer_block_gradients",
    "AttentionTangents",
    "BlockAttention",
    "BlockGradients",
    "CrossEntropy",
    "CrossInputGradients",
    "DoubleBackward",
    "Explanation",
    "InputGradients",
    "ProjectionGradients",
    "ReadOutGradients",
    "advantage",
    "attention",
    "attention_block_gradients",
    "attention_double_backward",
    "attention_gradients",
    "attention_gradients_jvp",
    "attention_jvp",
    "causal_mask",
    "compatibility",
    "cross_entropy",
    "explain",
    "fisher",
    "grouped_attention",
    "grouped_attention_gradients",
    "input_gradients",
    "key_gradient",
    "log_softmax",
    "logsumexp",
    "mean_compatibility",
    "merge_heads",
    "projection_gradients",
    "query_gradient",
    "read_out_gradients",
    "repeat_groups",
    "effective_count",
    "score_gradient",
    "softmax",
    "split_heads",
    "sum_groups",
    "value_gradient",
    "window_mask",
]
MODULES = {
    "dynamics": "Feedback Replicator ScoreStep ValueStep feedback feedback_full frame_precision_bound loss_change "
    "loss_decrease natural_direction replicator_step replicator_velocity saturation_bound score_step value_step "
    "weight_space_value_step",
    "em": "EmIdentity Witness em_identity gaussian_mixture_responsibilities mixture_loss mixture_loss_change "
    "mixture_responsibilities not_variational_witness proximal_e_step proximal_m_step",
    "bayes": "Filter bijection_predictive conditional_entropy entropy hmm_filter kl_divergence posterior "
    "posterior_predictive risk sequence_surprise sticky_markov_predictive total_variation",
    "theorems": "Theorem theorem",
    "fused": "attention_block_gradients",
    "tiled": "HeadDoubleBackward HeadGradients attention attention_double_backward attention_gradients attention_jvp",
    "torch": "attention from_torch",
    "transformer_block": "AttentionParameters BlockParameters LayerGradients LayerOptions attention_layer_gradients "
    "transformer_block_gradients",
    "modern": "ModernAttention ModernGradients attention attention_gradients",
    "row_maps": "DifferentialGradients LinearGradients differential_attention differential_attention_gradients entmax "
    "entmax_attention entmax_attention_gradients linear_attention linear_attention_gradients row_map_gradient "
    "sigmoid_attention sigmoid_attention_gradients",
    "positions": "alibi_bias alibi_slope_gradient rotary rotary_gradient",
    "layers": "Activation GatedMlpGradients LayerNormGradients MlpGradients RmsNormGradients activation_of gated_mlp "
    "gated_mlp_gradient layer_norm layer_norm_gradient mlp mlp_gradient rms_norm rms_norm_gradient",
}


def public(module):
    """What a module defines itself, without a leading underscore."""
    return sorted(
        name
        for name, x in vars(module).items()
        if not name.startswith("_")
        and (inspect.isfunction(x) or inspect.isclass(x))
        and x.__module__ == module.__name__
    )


def test_the_public_surface_is_the_list():
    assert sorted(bg.__all__) == sorted(SURFACE)
    for name in SURFACE:
        assert getattr(bg, name).__doc__, name


@pytest.mark.parametrize("name", list(MODULES))
def test_the_surface_of_each_module(name):
    module = __import__(f"bayesgrad.{name}", fromlist=["_"])
    assert public(module) == sorted(MODULES[name].split())
    for function in public(module):
        x = getattr(module, function)
        assert x.__doc__, function
        if inspect.isfunction(x) and name != "theorems":
            assert "Source:" in x.__doc__ or "Label" in x.__doc__, f"{name}.{function} does not say where it is from"


def test_options_are_keywords():
    """Arrays come first, by position; whatever follows is a keyword."""
    positional = {"q", "k", "v", "u", "x", "y", "weights", "compatibility", "scores", "logits", "targets", "mask"}
    for name in SURFACE:
        x = getattr(bg, name)
        if not inspect.isfunction(x):
            continue
        for parameter in inspect.signature(x).parameters.values():
            if parameter.default is not inspect.Parameter.empty:
                assert parameter.kind is inspect.Parameter.KEYWORD_ONLY, f"{name}({parameter.name})"
            elif parameter.kind is inspect.Parameter.KEYWORD_ONLY:
                assert parameter.name not in positional - {"mask"}, f"{name}({parameter.name})"


def test_modules_are_reached_by_name_as_the_readme_says():
    names = "('bayes', 'em', 'dynamics', 'fused', 'tasks', 'theorems', 'torch', 'symbolic', 'testing', 'training')"
    code = f"""
import sys, types
import bayesgrad as bg
assert 'torch' not in sys.modules
for name in {names}:
    assert name in dir(bg)
    assert isinstance(getattr(bg, name), types.ModuleType), name
    assert getattr(bg, name).__name__ == 'bayesgrad.' + name
try:
    bg.nonsense
except AttributeError as error:
    print(error)
"""
    assert run(code).strip() == "module 'bayesgrad' has no attribute 'nonsense'"


def test_no_module_is_hidden_by_a_function():
    """``import bayesgrad.X as x`` gives a module or fails; it never gives the function of that name."""
    for found in pkgutil.iter_modules(bg.__path__):
        assert inspect.ismodule(getattr(bg, found.name, bg)), found.name


def run(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout


def test_the_core_imports_no_heavy_library():
    heavy = ("torch", "jax", "sympy", "hypothesis", "matplotlib", "jaxtyping", "scipy", "array_api_compat.numpy")
    core = [
        m.name
        for m in pkgutil.iter_modules(bg.__path__)
        if m.name not in ("torch", "training", "testing", "tasks", "probe", "__main__")
    ]
    imports = "; ".join(f"import bayesgrad.{name}" for name in core)
    assert run(f"import sys, numpy; {imports}; print([m for m in {heavy!r} if m in sys.modules])").strip() == "[]"


def test_the_command_line(capsys):
    assert command.main([]) == 0
    assert "PyTorch" in capsys.readouterr().out
    assert command.main(["--json"]) == 0
    assert json.loads(capsys.readouterr().out)["package"]["bayesgrad"] == bg.__version__
    with pytest.raises(SystemExit) as stopped:
        command.main(["--nonsense"])
    assert stopped.value.code == 2

"""Update rules against PyTorch's own optimisers, and natural and alternating signals against dense forms."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from bayesgrad import dynamics
from bayesgrad.training import head_gradients, model, natural_directions, update_rules, updates
from bayesgrad.training.config import SGD, AdamW, Alternating, Config, Natural, OneHead, StickyMarkov
from bayesgrad.training.data import Batch

CONFIG = Config(
    task=StickyMarkov(length=300, symbols=5, d_x=6), model=OneHead(d_k=3, d_v=4, initial=0.5), dtype="float64"
)
N = 299  # more than two query tiles, and no multiple of one


def start(seed: int = 0, n: int = N) -> tuple[dict[str, torch.Tensor], Batch]:
    rng = np.random.default_rng(seed)
    batch = Batch(torch.tensor(rng.standard_normal((n, 6))), torch.tensor(rng.integers(0, 5, n)))
    return model.initial_parameters(CONFIG, seed), batch


def follow(rule: update_rules.Update, steps: int) -> dict[str, torch.Tensor]:
    parameters, batch = start(n=20)
    state = rule.start(parameters)
    for _ in range(steps):
        step = rule(parameters, update_rules.Oracle(head_gradients.autograd, batch), state)
        parameters, state = step.parameters, step.state
    return parameters


def follow_torch(make, steps: int, clip: float | None = None, schedule=None) -> dict[str, torch.Tensor]:
    parameters, batch = start(n=20)
    leaves = {name: value.clone().requires_grad_() for name, value in parameters.items()}
    optimiser = make(list(leaves.values()))
    for t in range(steps):
        if schedule is not None:
            for group in optimiser.param_groups:
                group["lr"] = schedule(t)
        optimiser.zero_grad()
        loss = torch.nn.functional.cross_entropy(model.logits(leaves, batch.x), batch.targets)
        loss.backward()
        if clip is not None:
            torch.nn.utils.clip_grad_norm_(list(leaves.values()), clip)
        optimiser.step()
    return {name: value.detach() for name, value in leaves.items()}


def test_momentum_is_pytorchs():
    ours = follow(updates.make_update(SGD(rate=0.3, momentum=0.9)), 7)
    theirs = follow_torch(lambda p: torch.optim.SGD(p, lr=0.3, momentum=0.9), 7)
    for name in ours:
        torch.testing.assert_close(ours[name], theirs[name], rtol=1e-10, atol=1e-13)


def test_adamw_is_pytorchs_with_warm_up_cosine_and_clipping():
    config = AdamW(rate=0.05, weight_decay=0.1, warm_up=3, cosine=True, clip=0.01, epsilon=1e-6)
    rule = updates.make_update(config, steps=10)
    theirs = follow_torch(
        lambda p: torch.optim.AdamW(p, lr=0.05, betas=(0.9, 0.99), eps=1e-6, weight_decay=0.1),
        7,
        clip=0.01,
        schedule=lambda t: 0.05 * min(1, (t + 1) / 3) * 0.5 * (1 + math.cos(math.pi * t / 10)),
    )
    ours = follow(rule, 7)
    for name in ours:
        torch.testing.assert_close(ours[name], theirs[name], rtol=1e-8, atol=1e-12)


def test_rules_change_no_tensor_in_place():
    for config in (SGD(momentum=0.5), AdamW(), Natural(), Alternating()):
        parameters, batch = start(n=30)
        kept = {name: value.clone() for name, value in parameters.items()}
        rule = updates.make_update(config, 5)
        rule(parameters, update_rules.Oracle(head_gradients.autograd, batch), rule.start(parameters))
        for name, value in parameters.items():
            assert torch.equal(value, kept[name]), (config, name)


def dense(parameters, batch):
    n = len(batch.x)
    a = model.weights(parameters, batch.x)
    v = batch.x @ parameters["W_V"]
    p = torch.softmax(a @ v @ parameters["W_O"], -1)
    r = (p - torch.nn.functional.one_hot(batch.targets, p.shape[-1])) / n
    u = r @ parameters["W_O"].mT
    return a, u @ v.mT


def test_the_tiled_sweep_is_the_dense_natural_direction_and_the_plain_gradient():
    parameters, batch = start(1)
    found = natural_directions.sweep(parameters, batch, keep=True)
    loss, plain = head_gradients.autograd(parameters, batch)
    torch.testing.assert_close(found.loss, loss, rtol=1e-12, atol=0)
    for name in ("W_V", "W_O"):
        torch.testing.assert_close(found.gradients[name], plain[name], rtol=1e-9, atol=1e-15)
    a, b = dense(parameters, batch)
    visible = model.causal(N)
    delta = torch.where(visible, b - (a * b).sum(-1, keepdim=True), torch.zeros_like(b))
    x, scale = batch.x, 1 / math.sqrt(3)
    q, k = x @ parameters["W_Q"], x @ parameters["W_K"]
    torch.testing.assert_close(found.gradients["W_Q"], scale * x.mT @ (delta @ k), rtol=1e-9, atol=1e-15)
    torch.testing.assert_close(found.gradients["W_K"], scale * x.mT @ (delta.mT @ q), rtol=1e-9, atol=1e-15)
    # the same direction as bayesgrad's, up to the constant per row that a softmax cannot see
    ours = dynamics.natural_direction(b, mask=visible)
    gap = torch.where(visible, delta - ours, torch.zeros_like(b))
    middle = gap.sum(-1, keepdim=True) / visible.sum(-1, keepdim=True)
    torch.testing.assert_close(
        gap, torch.where(visible, middle.expand_as(gap), torch.zeros_like(gap)), atol=1e-14, rtol=0
    )


def test_e_step_targets_are_the_replicator_step_and_their_gradient_is_autograds():
    parameters, batch = start(2)
    found = natural_directions.sweep(parameters, batch, keep=True)
    target = natural_directions.e_targets(found, 0.7, N)
    a, b = dense(parameters, batch)
    masked = torch.where(model.causal(N), b, torch.zeros_like(b))
    expected = dynamics.replicator_step(a, masked, eta=0.7 * N)
    for (rows, keys), tile in zip(natural_directions.tiles(N), target, strict=True):
        torch.testing.assert_close(tile, expected[rows, keys], rtol=1e-9, atol=1e-14)
    moved = {
        name: value + 0.1 * torch.sin(torch.arange(value.numel()).reshape(value.shape))
        for name, value in parameters.items()
    }
    kl, slopes = natural_directions.e_gradients(moved, batch.x, target)
    leaves = {name: moved[name].clone().requires_grad_() for name in ("W_Q", "W_K")}
    now = model.weights(moved | leaves, batch.x)
    reference = torch.special.xlogy(expected, expected.clamp_min(1e-300) / now.clamp_min(1e-300)).sum() / N
    reference.backward()
    torch.testing.assert_close(kl, reference.detach(), rtol=1e-9, atol=1e-14)
    for name, leaf in leaves.items():
        torch.testing.assert_close(slopes[name], leaf.grad, rtol=1e-8, atol=1e-14)


def test_passes_are_counted():
    parameters, batch = start(n=30)
    for config, passes in ((SGD(), 1), (Natural(), 1), (Alternating(e_steps=3, m_steps=2), 6)):
        rule, oracle = updates.make_update(config), update_rules.Oracle(head_gradients.autograd, batch)
        rule(parameters, oracle, rule.start(parameters))
        assert oracle.passes == passes


@pytest.mark.parametrize("config", [Natural(rate=0.5), Alternating(rate=0.5)])
def test_natural_and_alternating_steps_lower_the_loss(config):
    rule = updates.make_update(config)
    parameters, batch = start(3)
    state, losses = rule.start(parameters), []
    for _ in range(20):
        step = rule(parameters, update_rules.Oracle(head_gradients.autograd, batch), state)
        parameters, state = step.parameters, step.state
        losses.append(float(step.loss))
    assert losses[-1] < losses[0] - 0.01

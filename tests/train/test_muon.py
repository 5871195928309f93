"""Muon over stacks of matrices against torch's, which takes them one by one."""

import torch

from unmask.train.muon import Muon, orthogonal

SHAPES = [(8, 24), (24, 8), (16, 16), (8, 24), (24, 8)]


def test_it_does_what_torchs_does() -> None:
    torch.manual_seed(0)
    mine = [torch.nn.Parameter(torch.randn(shape)) for shape in SHAPES]
    theirs = [torch.nn.Parameter(weight.detach().clone()) for weight in mine]
    settings = {"lr": 0.02, "weight_decay": 0.1, "momentum": 0.9}
    fast, plain = Muon(mine, **settings), torch.optim.Muon(theirs, adjust_lr_fn="original", **settings)
    before = [weight.detach().clone() for weight in mine]
    for step in range(5):
        for number, (a, b) in enumerate(zip(mine, theirs, strict=True)):
            a.grad = torch.randn_like(a)
            b.grad = a.grad.clone()
            if step == 2 and number == 3:
                a.grad = b.grad = None
        fast.step()
        plain.step()
    for a, b, start in zip(mine, theirs, before, strict=True):
        moved = (b - start).norm()
        assert (a - b).norm() < 0.02 * moved  # both compute in bfloat16, in another order
        torch.testing.assert_close(fast.state[a]["momentum_buffer"], plain.state[b]["momentum_buffer"])


def test_a_weight_of_several_matrices_is_taken_as_those() -> None:
    torch.manual_seed(2)
    fused = torch.nn.Parameter(torch.randn(24, 8))
    apart = [torch.nn.Parameter(part.detach().clone()) for part in fused.chunk(3)]
    fused.grad = torch.randn(24, 8)
    for part, gradient in zip(apart, fused.grad.chunk(3), strict=True):
        part.grad = gradient.clone()
    Muon([{"params": [fused], "parts": 3}]).step()
    Muon(apart).step()
    torch.testing.assert_close(fused, torch.cat(apart))


def test_the_result_is_nearly_orthogonal() -> None:
    torch.manual_seed(1)
    (group,) = Muon([torch.nn.Parameter(torch.randn(4, 4))]).param_groups
    for shape in ((3, 8, 20), (2, 20, 8)):
        singular = torch.linalg.svdvals(orthogonal(torch.randn(shape), group).float())
        assert singular.min() > 0.5
        assert singular.max() < 1.5

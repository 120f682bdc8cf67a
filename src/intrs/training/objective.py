"""The two objectives: what a batch of noisy copies costs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch.nn import functional as fn

if TYPE_CHECKING:
    from torch import Tensor

    from intrs.training.recipe import Recipe


def loss(logits: Tensor, labels: Tensor, recipe: Recipe) -> Tensor:
    """The recipe's objective on logits (copies * batch, classes), copies of one image a batch apart."""
    if recipe.objective == "consistency":
        return consistency(logits, labels, recipe.copies, recipe.lam, recipe.eta)
    return fn.cross_entropy(logits, labels.repeat(recipe.copies))


def consistency(logits: Tensor, labels: Tensor, copies: int, lam: float, eta: float) -> Tensor:
    """Noise augmentation with consistency regularisation (Jeong and Shin 2020).

    With p_i the softmax of noisy copy i of an image, i = 1 .. m, and q = mean_i p_i, the loss of the image is

        mean_i -log p_i[label]  +  lam * mean_i KL(q || p_i)  +  eta * H(q),

    KL(q || p) = sum_c q_c log(q_c / p_c), H(q) = -sum_c q_c log q_c, and that of a batch is the mean over its images.
    """
    log_p = fn.log_softmax(logits, 1).reshape(copies, len(labels), -1)
    q = log_p.exp().mean(0)
    negative_entropy = (q * q.clamp_min(1e-20).log()).sum(1)  # of the average; x log x is 0 at 0
    cross = (q * log_p.mean(0)).sum(1)  # mean_i KL(q || p_i) = sum_c q_c log q_c - sum_c q_c mean_i log p_ic
    kl = negative_entropy - cross
    fit = fn.nll_loss(log_p.flatten(0, 1), labels.repeat(copies))
    total: Tensor = fit + (lam * kl - eta * negative_entropy).mean()
    return total

"""Optimizers: their state lives on the device, and a step moves nothing between host and device."""

from .adam import Adam, AdamW
from .clip import clip_grad_norm
from .optimizer import Optimizer
from .sgd import SGD

__all__ = ["SGD", "Adam", "AdamW", "Optimizer", "clip_grad_norm"]

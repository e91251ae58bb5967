"""Optimizers: their state lives on the device, and a step moves nothing between host and device."""

from . import lr
from .adagrad import Adagrad
from .adam import Adam, AdamW
from .clip import check_grad_anomaly, clip_grad_norm, clip_grad_value
from .groups import decay_groups
from .lion import Lion
from .optimizer import Optimizer
from .rmsprop import RMSprop
from .sgd import SGD

__all__ = [
    "SGD", "Adagrad", "Adam", "AdamW", "Lion", "Optimizer", "RMSprop", "check_grad_anomaly", "clip_grad_norm",
    "clip_grad_value", "decay_groups", "lr",
]  # fmt: skip

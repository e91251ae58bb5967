"""Schedules: what the learning rates are after each step. Names, arguments and values are PyTorch's."""

from .cosine import CosineAnnealingLR, CosineAnnealingWarmRestarts, WarmupCosine
from .cycle import CyclicLR, OneCycleLR
from .decay import ExponentialLR, LambdaLR, MultiStepLR, StepLR
from .plateau import ReduceLROnPlateau
from .schedule import LRScheduler

__all__ = [
    "CosineAnnealingLR", "CosineAnnealingWarmRestarts", "CyclicLR", "ExponentialLR", "LRScheduler", "LambdaLR",
    "MultiStepLR", "OneCycleLR", "ReduceLROnPlateau", "StepLR", "WarmupCosine",
]  # fmt: skip

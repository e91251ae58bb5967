"""Modules: layers, containers, and what describes them."""

from . import init
from .activation import (
    ELU,
    GEGLU,
    GELU,
    GLU,
    Hardsigmoid,
    Hardswish,
    Identity,
    LeakyReLU,
    LogSoftmax,
    Mish,
    ReLU,
    Sigmoid,
    SiLU,
    Softmax,
    Softplus,
    SwiGLU,
    Tanh,
)
from .attention import MultiheadAttention
from .batchnorm import BatchNorm1d, BatchNorm2d
from .checkpointed import checkpointed
from .containers import ModuleList, Sequential
from .conv import Conv1d, Conv2d, ConvTranspose2d
from .dropout import Dropout
from .linear import Embedding, Flatten, Linear
from .loss import BCELoss, BCEWithLogitsLoss, CrossEntropyLoss, HuberLoss, KLDivLoss, L1Loss, MSELoss, NLLLoss
from .module import Module
from .normalization import GroupNorm, LayerNorm, RMSNorm
from .pool import AdaptiveAvgPool2d, AvgPool2d, MaxPool2d, Upsample
from .recurrent import GRU, LSTM
from .summary import LayerRow, Summary, summary
from .transformer import TransformerEncoderLayer

__all__ = ["Module", "checkpointed", "init"]
__all__ += ["ModuleList", "Sequential"]
__all__ += ["Embedding", "Flatten", "Linear"]
__all__ += ["Conv1d", "Conv2d", "ConvTranspose2d"]
__all__ += ["AdaptiveAvgPool2d", "AvgPool2d", "MaxPool2d", "Upsample"]
__all__ += ["BatchNorm1d", "BatchNorm2d", "GroupNorm", "LayerNorm", "RMSNorm"]
__all__ += ["Dropout"]
__all__ += ["MultiheadAttention", "TransformerEncoderLayer"]
__all__ += ["GRU", "LSTM"]
__all__ += ["LayerRow", "Summary", "summary"]
__all__ += ["ELU", "GEGLU", "GELU", "GLU", "Hardsigmoid", "Hardswish", "Identity", "LeakyReLU", "LogSoftmax", "Mish"]
__all__ += ["ReLU", "SiLU", "Sigmoid", "Softmax", "Softplus", "SwiGLU", "Tanh"]
__all__ += [
    "BCELoss",
    "BCEWithLogitsLoss",
    "CrossEntropyLoss",
    "HuberLoss",
    "KLDivLoss",
    "L1Loss",
    "MSELoss",
    "NLLLoss",
]

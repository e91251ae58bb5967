"""Initial values, written into tensors in place, with the names, defaults and formulas of `torch.nn.init`.

Each function returns its tensor.
The numbers come from the library's one generator: `ag.manual_seed` decides, and they are the same on every device.
"""

from __future__ import annotations

import math

import numpy as np

from ..backend.array import INT, Shape
from ..ops.base import finite
from ..ops.random import normal, uniform
from ..tensor import Tensor

GAINS = {
    **dict.fromkeys(("linear", "conv1d", "conv2d", "conv_transpose2d", "sigmoid"), 1.0),
    "tanh": 5.0 / 3.0,
    "relu": math.sqrt(2.0),
    "selu": 3.0 / 4.0,
}


def uniform_(tensor: Tensor, a: float = 0.0, b: float = 1.0) -> Tensor:
    """Write numbers from the uniform distribution in [a, b) into a tensor, and return it.

    Args:
        tensor: of floats, any shape.
        a: the least.
        b: the limit above.

    Raises:
        ValueError: a is greater than b, or one is not finite. TypeError: no tensor of floats, no numbers.

    >>> w = ag.nn.init.uniform_(ag.param(np.zeros((3, 5))), -0.1, 0.1)
    >>> bool(abs(w.numpy()).max() <= 0.1)
    True
    """
    _check("uniform_", tensor)
    low, high = finite("uniform_", "a", a), finite("uniform_", "b", b)
    if low > high:
        raise ValueError(f"uniform_: a must not be greater than b, not {a} and {b}")
    return _uniform(tensor, low, high)


def normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0) -> Tensor:
    """Write numbers from a normal distribution into a tensor, and return it.

    Args:
        tensor: of floats, any shape.
        mean: of the distribution.
        std: its standard deviation; from 0 on.

    Raises:
        ValueError: std is negative, or one is not finite. TypeError: no tensor of floats, no numbers.

    >>> ag.nn.init.normal_(ag.param([0.0, 0.0]), mean=2.0, std=0.0).tolist()
    [2.0, 2.0]
    """
    _check("normal_", tensor)
    middle, deviation = finite("normal_", "mean", mean), _from_zero("normal_", "std", std)
    return tensor.copy_(normal(tensor.shape) * np.float32(deviation) + np.float32(middle))


def trunc_normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0, a: float = -2.0, b: float = 2.0) -> Tensor:
    """Write normal numbers, drawn again while they are outside [a, b], into a tensor, and return it.

    Args:
        tensor: of floats, any shape.
        mean: of the distribution.
        std: its standard deviation; above 0.
        a: the least value; itself, and not a multiple of std, as in PyTorch.
        b: the greatest.

    Raises:
        ValueError: std is not above 0, a is not less than b, or one is not finite. TypeError: no tensor of floats, no
        numbers.

    >>> w = ag.nn.init.trunc_normal_(ag.param(np.zeros((4, 4))), std=0.5, a=0.0, b=1.0)
    >>> bool(0.0 <= w.numpy().min() and w.numpy().max() <= 1.0)
    True
    """
    op = "trunc_normal_"
    _check(op, tensor)
    middle, deviation, low, high = (finite(op, *p) for p in (("mean", mean), ("std", std), ("a", a), ("b", b)))
    if deviation <= 0.0:
        raise ValueError(f"{op}: std must be above 0, not {std}")
    if low >= high:
        raise ValueError(f"{op}: a must be less than b, not {a} and {b}")
    drawn = _truncated(tensor.size, (low - middle) / deviation, (high - middle) / deviation)
    return tensor.copy_(np.clip(middle + deviation * drawn, low, high).reshape(tensor.shape))


def constant_(tensor: Tensor, val: float) -> Tensor:
    """Write one number everywhere into a tensor, and return it.

    Args:
        tensor: of floats, any shape.
        val: the number.

    Raises:
        ValueError: val is not finite. TypeError: no tensor of floats, no number.

    >>> ag.nn.init.constant_(ag.param([1.0, 2.0]), 0.5).tolist()
    [0.5, 0.5]
    """
    _check("constant_", tensor)
    return tensor.copy_(finite("constant_", "val", val))


def zeros_(tensor: Tensor) -> Tensor:
    """Write 0 everywhere into a tensor, and return it.

    Args:
        tensor: of floats, any shape.

    Raises:
        TypeError: no tensor of floats.

    >>> ag.nn.init.zeros_(ag.param([1.0, 2.0])).tolist()
    [0.0, 0.0]
    """
    _check("zeros_", tensor)
    return tensor.copy_(0.0)


def ones_(tensor: Tensor) -> Tensor:
    """Write 1 everywhere into a tensor, and return it.

    Args:
        tensor: of floats, any shape.

    Raises:
        TypeError: no tensor of floats.

    >>> ag.nn.init.ones_(ag.param([3.0, 2.0])).tolist()
    [1.0, 1.0]
    """
    _check("ones_", tensor)
    return tensor.copy_(1.0)


def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """By what a layer's standard deviation is multiplied for the activation that follows it.

    1 for "linear", "conv1d", "conv2d", "conv_transpose2d" and "sigmoid", 5/3 for "tanh", sqrt(2) for "relu", sqrt(2 /
    (1 + slope**2)) for "leaky_relu" and 3/4 for "selu".

    Args:
        nonlinearity: one of these names.
        param: the slope of "leaky_relu"; 0.01 by default.

    Raises:
        ValueError: another name, or a slope that is not finite. TypeError: a slope that is no number.

    >>> ag.nn.init.calculate_gain("leaky_relu", 1.0)
    1.0
    """
    if nonlinearity == "leaky_relu":
        slope = 0.01 if param is None else finite("calculate_gain", "param", param)
        return math.sqrt(2.0 / (1.0 + slope**2))
    if not isinstance(nonlinearity, str) or nonlinearity not in GAINS:
        known = ", ".join(sorted([*GAINS, "leaky_relu"]))
        raise ValueError(f"calculate_gain: nonlinearity must be one of {known}, not {nonlinearity!r}")
    return GAINS[nonlinearity]


def kaiming_uniform_(tensor: Tensor, a: float = 0.0, mode: str = "fan_in", nonlinearity: str = "leaky_relu") -> Tensor:
    """Write uniform numbers in [-bound, bound), bound = gain * sqrt(3 / fan), and return the tensor (He et al. 2015).

    Args:
        tensor: a weight of floats, (out, in, ...); the fans are in and out times the other extents' product.
        a: the slope of "leaky_relu".
        mode: "fan_in" keeps the variance of values on the way forward, "fan_out" that of gradients on the way back.
        nonlinearity: what follows the layer, for `calculate_gain`.

    Raises:
        ValueError: less than two dimensions, another mode or nonlinearity. TypeError: no tensor of floats.

    >>> w = ag.nn.init.kaiming_uniform_(ag.param(np.zeros((2, 6))), nonlinearity="relu")
    >>> bool(abs(w.numpy()).max() <= 1.0)
    True
    """
    bound = math.sqrt(3.0) * _kaiming("kaiming_uniform_", tensor, a, mode, nonlinearity)
    return _uniform(tensor, -bound, bound)


def kaiming_normal_(tensor: Tensor, a: float = 0.0, mode: str = "fan_in", nonlinearity: str = "leaky_relu") -> Tensor:
    """Write normal numbers of standard deviation gain / sqrt(fan), and return the tensor (He et al. 2015).

    Args:
        tensor: a weight of floats, (out, in, ...); the fans are in and out times the other extents' product.
        a: the slope of "leaky_relu".
        mode: "fan_in" keeps the variance of values on the way forward, "fan_out" that of gradients on the way back.
        nonlinearity: what follows the layer, for `calculate_gain`.

    Raises:
        ValueError: less than two dimensions, another mode or nonlinearity. TypeError: no tensor of floats.

    >>> ag.nn.init.kaiming_normal_(ag.param(np.zeros((8, 3, 5, 5)))).shape
    (8, 3, 5, 5)
    """
    return normal_(tensor, 0.0, _kaiming("kaiming_normal_", tensor, a, mode, nonlinearity))


def xavier_uniform_(tensor: Tensor, gain: float = 1.0) -> Tensor:
    """Write uniform numbers in [-bound, bound), bound = gain * sqrt(6 / (fan_in + fan_out)), and return the tensor.

    Glorot and Bengio (2010) have them so.

    Args:
        tensor: a weight of floats, (out, in, ...); the fans are in and out times the other extents' product.
        gain: a factor, from 0 on; see `calculate_gain`.

    Raises:
        ValueError: less than two dimensions, a negative gain. TypeError: no tensor of floats, no number.

    >>> w = ag.nn.init.xavier_uniform_(ag.param(np.zeros((2, 4))))
    >>> bool(abs(w.numpy()).max() <= 1.0)
    True
    """
    bound = math.sqrt(3.0) * _xavier("xavier_uniform_", tensor, gain)
    return _uniform(tensor, -bound, bound)


def xavier_normal_(tensor: Tensor, gain: float = 1.0) -> Tensor:
    """Write normal numbers of standard deviation gain * sqrt(2 / (fan_in + fan_out)), and return the tensor.

    Glorot and Bengio (2010) have them so.

    Args:
        tensor: a weight of floats, (out, in, ...); the fans are in and out times the other extents' product.
        gain: a factor, from 0 on; see `calculate_gain`.

    Raises:
        ValueError: less than two dimensions, a negative gain. TypeError: no tensor of floats, no number.

    >>> ag.nn.init.xavier_normal_(ag.param(np.zeros((2, 4))), gain=0.0).tolist()[0]
    [0.0, 0.0, 0.0, 0.0]
    """
    return normal_(tensor, 0.0, _xavier("xavier_normal_", tensor, gain))


def orthogonal_(tensor: Tensor, gain: float = 1.0) -> Tensor:
    """Write an orthogonal matrix times gain, and return the tensor.

    Its rows are orthonormal, or its columns where there are fewer of them. It comes from the QR decomposition of a
    matrix of normal numbers (Saxe et al. 2014), with the signs that make it uniformly distributed (Mezzadri 2007).

    Args:
        tensor: of floats, at least two dimensions; those after the first count as one.
        gain: a factor.

    Raises:
        ValueError: less than two dimensions, a gain that is not finite. TypeError: no tensor of floats, no number.

    >>> w = ag.nn.init.orthogonal_(ag.param(np.zeros((3, 5))))
    >>> np.allclose(w.numpy() @ w.numpy().T, np.eye(3), atol=1e-6)
    True
    """
    _check("orthogonal_", tensor, 2)
    factor = finite("orthogonal_", "gain", gain)
    rows, columns = tensor.shape[0], tensor.size // tensor.shape[0]
    drawn = normal((rows, columns)).astype(np.float64)
    q, r = np.linalg.qr(drawn if rows >= columns else drawn.T)
    q = q * np.where(np.diag(r) < 0.0, -factor, factor)
    return tensor.copy_((q if rows >= columns else q.T).reshape(tensor.shape))


# ---------------------------------------------------------------- what they share


def fans(shape: Shape) -> tuple[int, int]:
    """How many values each output of a weight (out, in, ...) is made of, and how many outputs each input goes to."""
    field = math.prod(shape[2:])
    return shape[1] * field, shape[0] * field


def _kaiming(op: str, tensor: Tensor, a: float, mode: str, nonlinearity: str) -> float:
    """The standard deviation."""
    _check(op, tensor, 2)
    if not isinstance(mode, str) or mode not in ("fan_in", "fan_out"):
        raise ValueError(f'{op}: mode must be "fan_in" or "fan_out", not {mode!r}')
    fan = fans(tensor.shape)[0 if mode == "fan_in" else 1]
    return calculate_gain(nonlinearity, finite(op, "a", a)) / math.sqrt(fan)


def _xavier(op: str, tensor: Tensor, gain: float) -> float:
    """The standard deviation."""
    _check(op, tensor, 2)
    return _from_zero(op, "gain", gain) * math.sqrt(2.0 / sum(fans(tensor.shape)))


def _uniform(tensor: Tensor, low: float, high: float) -> Tensor:
    return tensor.copy_(uniform(tensor.shape) * np.float32(high - low) + np.float32(low))


def _truncated(n: int, low: float, high: float) -> np.ndarray:
    """Standard normal numbers from [low, high]: candidates are drawn until each place has got one that is accepted."""
    usual = 0.5 * (math.erf(high / math.sqrt(2.0)) - math.erf(low / math.sqrt(2.0))) > 0.3
    peak = min(max(low, 0.0), high)  # where the density in the interval is highest
    reach = math.sqrt(peak**2 + 64.0)  # beyond, it is less than exp(-32) of that
    first, last = max(low, -reach), min(high, reach)
    out = np.empty(n)
    places = np.arange(n)
    while places.size:
        if usual:
            drawn = normal(places.shape).astype(np.float64)
            accepted = (drawn >= low) & (drawn <= high)
        else:  # hardly any would be accepted: take uniform ones in proportion to the density
            drawn = first + (last - first) * uniform(places.shape).astype(np.float64)
            accepted = uniform(places.shape) < np.exp(0.5 * (peak - drawn) * (peak + drawn))
        out[places[accepted]] = drawn[accepted]
        places = places[~accepted]
    return out


def _check(op: str, tensor: Tensor, dimensions: int = 0) -> None:
    if not isinstance(tensor, Tensor):
        raise TypeError(f"{op}: tensor must be a Tensor, not {type(tensor).__name__}")
    if tensor.dtype == INT:
        raise TypeError(f"{op}: tensor must hold floats, not int32")
    if tensor.ndim < dimensions:
        raise ValueError(f"{op}: tensor must have at least {dimensions} dimensions, not shape {tensor.shape}")


def _from_zero(op: str, name: str, value: float) -> float:
    checked = finite(op, name, value)
    if checked < 0.0:
        raise ValueError(f"{op}: {name} must not be negative, not {value}")
    return checked


__all__ = [
    "calculate_gain", "constant_", "kaiming_normal_", "kaiming_uniform_", "normal_", "ones_", "orthogonal_",
    "trunc_normal_", "uniform_", "xavier_normal_", "xavier_uniform_", "zeros_",
]  # fmt: skip

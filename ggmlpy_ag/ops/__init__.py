"""The operations, one family a file; each is defined once, with its gradient rule beside it.

A family's `__all__` lists its public operations; `ag.NAME` is each of them.
"""

from . import activation, arithmetic, compare, functions, join, linalg, loss, order, random, reduce, shape
from . import methods as _methods  # noqa: F401 - binds Tensor's operators and methods
from .activation import *
from .arithmetic import *
from .compare import *
from .functions import *
from .join import *
from .linalg import *
from .loss import *
from .order import *
from .random import *
from .reduce import *
from .shape import *

__all__: list[str] = []
__all__ += activation.__all__
__all__ += arithmetic.__all__
__all__ += compare.__all__
__all__ += functions.__all__
__all__ += join.__all__
__all__ += linalg.__all__
__all__ += loss.__all__
__all__ += order.__all__
__all__ += random.__all__
__all__ += reduce.__all__
__all__ += shape.__all__

"""The operations, one family a file; each is defined once, with its gradient rule beside it.

A family's `__all__` lists its public operations; `ag.NAME` is each of them.
"""

from . import (
    activation,
    arithmetic,
    attention,
    batchnorm,
    choose,
    classification,
    compare,
    contraction,
    conv,
    functions,
    gated,
    join,
    linalg,
    loss,
    normalization,
    order,
    pool,
    probability,
    random,
    rearrange,
    reduce,
    resize,
    rotary,
    rounding,
    scan,
    select,
    shape,
    sorting,
    statistics,
    swish,
)
from . import methods as _methods  # noqa: F401 - binds Tensor's operators and methods
from .activation import *
from .arithmetic import *
from .attention import *
from .batchnorm import *
from .choose import *
from .classification import *
from .compare import *
from .contraction import *
from .conv import *
from .functions import *
from .gated import *
from .join import *
from .linalg import *
from .loss import *
from .normalization import *
from .order import *
from .pool import *
from .probability import *
from .random import *
from .rearrange import *
from .reduce import *
from .resize import *
from .rotary import *
from .rounding import *
from .scan import *
from .select import *
from .shape import *
from .sorting import *
from .statistics import *
from .swish import *

__all__: list[str] = []
__all__ += activation.__all__
__all__ += arithmetic.__all__
__all__ += attention.__all__
__all__ += batchnorm.__all__
__all__ += choose.__all__
__all__ += classification.__all__
__all__ += compare.__all__
__all__ += contraction.__all__
__all__ += conv.__all__
__all__ += functions.__all__
__all__ += gated.__all__
__all__ += join.__all__
__all__ += linalg.__all__
__all__ += loss.__all__
__all__ += normalization.__all__
__all__ += order.__all__
__all__ += pool.__all__
__all__ += probability.__all__
__all__ += random.__all__
__all__ += rearrange.__all__
__all__ += reduce.__all__
__all__ += resize.__all__
__all__ += rotary.__all__
__all__ += rounding.__all__
__all__ += scan.__all__
__all__ += select.__all__
__all__ += shape.__all__
__all__ += sorting.__all__
__all__ += statistics.__all__
__all__ += swish.__all__

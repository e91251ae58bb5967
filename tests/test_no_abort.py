"""No call ends the process: random calls, right and wrong ones, each raise one of a few Python errors or give a result.

They run in a process of their own for each device, so that an abort in ggml is a failed test that names the call.
"""

from __future__ import annotations

import itertools
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import child
import numpy as np
import pytest
from optable import CALLS
from optable.calls import Calls

import ggmlpy_ag as ag

COUNT = 25 * len(CALLS)
SEED = 20240601
ALLOWED = (ValueError, TypeError, IndexError, ag.OutOfMemoryError)
PACKAGE = Path(ag.__file__).parent
LARGEST = 1 << 22  # elements of a result that is computed; larger ones must be refused or never be asked for


def test_random_calls_do_not_end_the_process(device: str) -> None:
    done = child.python(__file__, device, path=Path(__file__).parent, GGMLPY_AG_SOFTWARE_VULKAN="1")
    lines = done.stdout.splitlines()
    assert done.returncode == 0, "\n".join(["the last call was", *lines[-2:], done.stderr])
    right, wrong = map(int, lines[-1].split())
    assert right + wrong == COUNT + len(TOO_LARGE)
    assert min(right, wrong) > COUNT // 5  # neither kind is crowded out


TOO_LARGE: dict[str, Callable[[], Any]] = {
    "4 TiB": lambda: ag.broadcast_to(1.0, (2**40,)),
    "2**62 elements": lambda: ag.broadcast_to(1.0, (2**62,)),
    "2**62 elements in a matrix": lambda: ag.broadcast_to(1.0, (2**31, 2**31)),
    "2**62 elements of a sum": lambda: ag.broadcast_to(1.0, (2**31, 1)) + ag.broadcast_to(1.0, (1, 2**31)),
    "argmax of more than float32 counts": lambda: ag.argmax(ag.broadcast_to(1.0, (2**24 + 1,))),
    "padding beyond int32": lambda: ag.pad([1.0], [(0, 2**31)]),
}


# ---------------------------------------------------------------- in the child process


def attempt(call: Callable[[], Any]) -> bool:
    """Whether the call had a result; its values and gradients are computed then."""
    try:
        with ag.grad_tape() as tape:
            out = call()
        if out.size > LARGEST:
            with pytest.raises(ag.OutOfMemoryError):
                out.numpy()
            return False
        out.numpy()
        if len(tape):
            ag.backward(out, np.ones(out.shape))
    except ALLOWED as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        ours = str(PACKAGE) in where.filename and str(where.line).startswith("raise")
        if not ours:
            raise RuntimeError(f"an accident, and no error that was raised on purpose: {error!r}") from error
        return False
    return True


def main(device: str) -> None:
    ag.set_fallback("error")
    ag.device(device)
    calls = Calls(SEED, CALLS)
    sample = ag.param([[1.0, -2.0, 3.0]])
    right = wrong = 0
    for text, call in itertools.chain(TOO_LARGE.items(), itertools.islice(calls, COUNT)):
        print(text, flush=True)  # the last line says what ended the process
        if attempt(call):
            right += 1
        else:
            wrong += 1
        assert (sample * 2.0 + 1.0).tolist() == [[3.0, -3.0, 7.0]]
    print(right, wrong)


if __name__ == "__main__":
    main(*sys.argv[1:])

"""Every wrong call of the op table raises the error it should, and leaves everything as it was.

A failed assertion in ggml ends the process. So the calls of each device are made in a process of their own, which says
before each what it will do: the call that ended it is a failed test.
"""

from __future__ import annotations

import json
import sys
from functools import lru_cache
from pathlib import Path

import child
import numpy as np
import pytest
from optable import BY_NAME, DEVICES, MAKING_ERRORS, OPS, Error, Maker, Op
from optable.measure import assert_close, reference, tensors

import ggmlpy_ag as ag

CASES: dict[str, tuple[Op, Error]] = {
    f"{name}-{i}-{error.type.__name__}": (op, error)
    for name, op, errors in [*((op.name, op, op.errors) for op in OPS), ("tensor", BY_NAME["add"], MAKING_ERRORS)]
    for i, error in enumerate(errors)
}
MISSING = "devices"  # too few of them


@pytest.mark.parametrize("name", CASES)
def test_wrong_calls_raise_and_change_nothing(name: str, device: str) -> None:
    found, end = verdicts(device)
    assert name in found, f"the process has ended: {end}"
    if found[name] == MISSING:
        pytest.skip(f"needs {CASES[name][1].devices} devices, there is {len(DEVICES)}")
    assert found[name] == ""


@lru_cache
def verdicts(device: str) -> tuple[dict[str, str], str]:
    """What is wrong with each case, "" for nothing; and how the process ended."""
    done = child.python(__file__, device, path=Path(__file__).parent, GGMLPY_AG_SOFTWARE_VULKAN="1")
    lines = done.stdout.splitlines()
    found = dict(json.loads(line) for line in lines if line.startswith("["))
    return found, f"status {done.returncode} in {lines[-1] if lines else 'the beginning'}\n{done.stderr[-2000:]}"


# ---------------------------------------------------------------- in the child process


def verdict(op: Op, error: Error) -> str:
    """Make the wrong call, and the next right one."""
    if error.devices > len(DEVICES):
        return MISSING
    maker = Maker()
    try:
        with ag.grad_tape() as tape:
            error.call(maker)
    except Exception as caught:
        if type(caught) is not error.type:
            return f"raised {caught!r} instead of {error.type.__name__}"
        missing = [word for word in error.words if word not in str(caught)]
        if missing:
            return f"its message lacks {missing}: {caught}"
    else:
        return f"did not raise {error.type.__name__}"
    if len(tape):
        return "left something on the tape"
    if not all(np.array_equal(tensor.numpy(), values) for tensor, values in maker.made):
        return "changed an operand"
    sample = op.samples[1]
    assert_close(op.call(*tensors(sample), **sample.options).numpy(), reference(op, sample), op, sample)
    return ""


def main(device: str) -> None:
    ag.set_fallback("error")
    ag.device(device)
    for name, (op, error) in CASES.items():
        print(name, flush=True)
        print(json.dumps([name, verdict(op, error)]), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])

"""Run the op table on the devices of this machine and write down how exact every operation is.

For each operation and device: the largest error of its values and of its gradients over all samples of the table
(tests/optable/), against NumPy in float64; whether PyTorch agrees; which types it takes; whether it is one ggml kernel
or made of several; whether a part of it ran on another device; and what its gradient rule keeps, beside what
PyTorch keeps. Ends with status 1 when a row fails.

    python scripts/conformance.py                        # all devices, a table for each
    python scripts/conformance.py --device vulkan --op matmul --op exp
    python scripts/conformance.py --write                # docs/ops.md and docs/ops.json

Mesa's Vulkan on the CPU counts as a device, as in the tests.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

os.environ.setdefault("GGMLPY_AG_SOFTWARE_VULKAN", "1")

import ggmlpy_ag as ag

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))
try:
    from optable import OPS, Op, Sample, measure
except ModuleNotFoundError:
    sys.exit("conformance.py reads the op table in tests/: run it in a checkout of the repository")
try:
    import torch
except ImportError:
    torch = None  # its columns stay empty

ULP = 2.0**-23  # of a float32, relative to its value: one unit in the last place, or half of one


@dataclass
class Row:
    """What was found for one operation on one device."""

    op: str
    device: str
    dtypes: str
    forward: float  # largest error of a value, in units in the last place
    gradient: float | None  # largest error of a gradient, relative to the largest gradient; None without gradients
    pytorch: str  # "yes", "no", or "" where PyTorch is missing or has nothing like it
    made_of: str
    fallback: bool
    problems: list[str]


@dataclass
class Kept:
    """Bytes that the rule of one operation keeps for the backward pass, for the largest sample of the table."""

    op: str
    stated: str
    operands: int
    result: int
    here: int
    pytorch: int | None


# ---------------------------------------------------------------- measuring


def conform(op: Op, device: str) -> Row:
    """Run every sample of an operation on a device."""
    problems: list[str] = []
    forward, gradient = 0.0, None
    before = ag.counters().fallbacks
    agrees = op.torch is not None and torch is not None
    for sample in op.samples:
        name = f"{op.name}({sample})"
        got = op.call(*measure.tensors(sample), **sample.options).numpy()
        expected = measure.reference(op, sample)
        forward = max(forward, measure.value_error(got, expected, op, sample))
        problems += _failure(name, measure.assert_close, got, expected, op, sample)
        if measure.has_gradient(op, sample):
            operands = measure.tensors(sample)
            found = measure.gradients(op, sample, operands, [operands[i] for i in sample.floats])
            if sample.size <= measure.SMALL:
                wanted = measure.slopes(op, sample)
                gradient = max(gradient or 0.0, *(_gradient_error(f, w) for f, w in zip(found, wanted, strict=True)))
                for f, w in zip(found, wanted, strict=True):
                    problems += _failure(f"gradient of {name}", measure.assert_gradients_close, f, w, op)
        if agrees:
            agrees &= not _failure("", measure.assert_pytorch_agrees, torch, op, sample)
    if op.torch is not None and torch is not None and not agrees:
        problems.append(f"{op.name}: PyTorch has other values or gradients")
    fallback = ag.counters().fallbacks > before
    if fallback:
        problems.append(f"{op.name}: a part of it ran on the CPU")
    return Row(
        op=op.name,
        device=device,
        dtypes=dtypes(op),
        forward=forward / ULP,
        gradient=gradient,
        pytorch="" if op.torch is None or torch is None else "yes" if agrees else "no",
        made_of=made_of(op),
        fallback=fallback,
        problems=problems,
    )


def _failure(name: str, check: Any, *arguments: Any) -> list[str]:
    try:
        check(*arguments)
    except AssertionError as error:
        return [f"{name}: {' '.join(str(error).split())[:200]}"]
    return []


def _gradient_error(found: np.ndarray, expected: np.ndarray) -> float:
    return float(np.max(np.abs(found - expected), initial=0.0) / max(np.max(np.abs(expected), initial=0.0), 1e-30))


def dtypes(op: Op) -> str:
    """The types of operands it takes."""
    sample = next((s for s in op.samples if s.floats), None)
    if sample is None:
        return "float32" if op.samples[0].operands == () else "int32"
    taken = []
    for dtype in ("float32", "float16", "bfloat16", "int32"):
        operands = [
            ag.tensor(np.ones(v.shape) if dtype == "int32" else v, dtype=dtype) if i in sample.floats else v
            for i, v in enumerate(sample.operands)
        ]
        operands = [ag.tensor(v) if isinstance(v, np.ndarray) else v for v in operands]
        try:
            op.call(*operands, **sample.options).numpy()
        except (TypeError, ValueError, IndexError):
            continue
        taken.append(dtype)
    return " ".join(taken)


def made_of(op: Op) -> str:
    """How many ggml kernels the forward pass of the largest sample runs; "host" for what is made there and uploaded."""
    sample = measure.largest(op)
    out = op.call(*measure.tensors(sample), **sample.options)
    node = out._array.storage.node
    seen: set[Any] = set()
    stack = [node] if node is not None else []
    while stack:
        node = stack.pop()
        if node not in seen:
            seen.add(node)
            stack += [origin for origin, *_ in node.sources if type(origin) is type(node)]
    kernels = [node for node in seen if node.primitive.name != "copy"]
    if len(kernels) < 2:
        return "native" if kernels else "copy" if seen else "view" if sample.operands else "host"
    return f"composed of {len(kernels)}"


def kept(op: Op) -> Kept | None:
    """What the tape keeps for an operation, and what PyTorch's keeps."""
    if not op.gradient:
        return None
    sample = measure.largest(op)
    with ag.grad_tape() as tape:
        out = op.call(*measure.tensors(sample), **sample.options)
        here = measure.kept_bytes(tape)
    ag.zero_grad()
    terms = [f"{factor:g} x {name}" for factor, name in zip(op.keeps, ("operands", "result"), strict=True) if factor]
    stated = " + ".join(terms) or "nothing"
    return Kept(op.name, stated, 4 * sample.size, out.nbytes, here, _kept_by_pytorch(op, sample))


def _kept_by_pytorch(op: Op, sample: Sample) -> int | None:
    if torch is None or op.torch is None:
        return None
    storages: dict[int, int] = {}

    def pack(tensor: Any) -> Any:
        storage = tensor.untyped_storage()
        storages[storage.data_ptr()] = storage.nbytes()
        return tensor

    operands = measure.torch_operands(torch, sample, torch.float32)
    for i in sample.floats:
        operands[i].requires_grad_(True)
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        out = op.torch(torch, *operands, **sample.options)
    del out
    return sum(storages.values())


# ---------------------------------------------------------------- writing


def table(rows: Sequence[Row]) -> Iterator[str]:
    """The rows of one device as Markdown."""
    yield "| operation | types | forward, ulp | gradient, relative | PyTorch agrees | made of | fallback |"
    yield "|---|---|---|---|---|---|---|"
    for r in rows:
        gradient = "" if r.gradient is None else f"{r.gradient:.1e}"
        yield (
            f"| {r.op} | {r.dtypes} | {r.forward:.1f} | {gradient} | {r.pytorch} | {r.made_of} | "
            f"{'yes' if r.fallback else 'no'} |"
        )


def kept_table(entries: Sequence[Kept]) -> Iterator[str]:
    yield "| operation | keeps | operands, bytes | result, bytes | kept here | kept by PyTorch |"
    yield "|---|---|---|---|---|---|"
    for k in entries:
        theirs = "" if k.pytorch is None else str(k.pytorch)
        yield f"| {k.op} | {k.stated} | {k.operands} | {k.result} | {k.here} | {theirs} |"


PREAMBLE = """# Operations

Written by `python scripts/conformance.py --write`; do not edit. Every public operation, with the largest errors over
the samples of the op table (`tests/optable/`).

- *forward*: error of a value against NumPy in float64, in units in the last place of a float32: 2⁻²³ of the value; of
  the sum of the terms' magnitudes for sums and matrix products; near zero of where the table's absolute tolerance takes
  over.
- *gradient*: error against finite differences of the NumPy reference in float64, relative to the largest gradient.
- *made of*: ggml kernels that the forward pass of the largest sample runs, copies aside.
"""

KEPT = """## What the tape keeps

Bytes that a gradient rule holds until the tape is cleared, for the largest sample of the table. Operands usually exist
anyway, as parameters or as results of the operations before; *result* is that of the operation itself. What is neither
is paid for this operation alone.
"""


def document(rows: Sequence[Row], memory: Sequence[Kept]) -> str:
    lines = [PREAMBLE]
    for device in dict.fromkeys(r.device for r in rows):
        lines += [f"## {device}", "", *table([r for r in rows if r.device == device]), ""]
    return "\n".join([*lines, KEPT, *kept_table(memory), ""])


def progress(text: str) -> None:
    """A line that is overwritten, on a terminal only."""
    if sys.stderr.isatty():
        print(f"\r{text:60}", end="" if text else "\r", file=sys.stderr, flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description="Check every operation on the devices of this machine.")
    parser.add_argument("--device", action="append", help="cpu, vulkan, ...; may be repeated; all devices by default")
    parser.add_argument("--op", action="append", help="this operation only; may be repeated")
    parser.add_argument("--write", action="store_true", help="write docs/ops.md and docs/ops.json")
    options = parser.parse_args()
    names = {op.name for op in OPS}
    for name in options.op or ():
        if name not in names:
            parser.error(f"there is no operation {name!r}")
    try:
        devices = [ag.device(name).name for name in options.device or [d.name for d in reversed(ag.devices())]]
    except ValueError as error:
        parser.error(str(error))
    warnings.filterwarnings("ignore", "Using padding='same' with even kernel")  # PyTorch's, on its own speed
    chosen = [op for op in OPS if not options.op or op.name in options.op]
    rows = []
    for device in devices:
        with ag.device(device):
            for i, op in enumerate(chosen, 1):
                progress(f"{device}: {i}/{len(chosen)} {op.name}")
                rows.append(conform(op, device))
    with ag.device("cpu"):
        memory = [k for k in map(kept, chosen) if k is not None]
    progress("")
    text = document(rows, memory)
    if options.write:
        (ROOT / "docs" / "ops.md").write_text(text, "utf-8")
        found = {"rows": [asdict(r) for r in rows], "kept": [asdict(k) for k in memory]}
        (ROOT / "docs" / "ops.json").write_text(json.dumps(found, indent=1) + "\n", "utf-8")
    else:
        print(text)
    problems = [problem for row in rows for problem in row.problems]
    for problem in problems:
        print(f"FAILED {problem}", file=sys.stderr)
    failing = sum(1 for row in rows if row.problems)
    print(f"{len(rows)} rows on {', '.join(devices)}: {failing} failing", file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    raise SystemExit(main())

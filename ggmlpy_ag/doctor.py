"""What this installation can use, and what is wrong if something is."""

from __future__ import annotations

import contextlib
import os
import platform

import numpy as np

from .backend import devices, library, vulkan
from .backend.memory import format_bytes
from .ops import matmul
from .tensor import tensor

VARIABLES = (
    "GGMLPY_AG_DEVICE",
    "GGMLPY_AG_NUM_THREADS",
    "GGMLPY_AG_SOFTWARE_VULKAN",
    "GGML_VK_VISIBLE_DEVICES",
    "OMP_WAIT_POLICY",
    "GOMP_SPINCOUNT",
)


def doctor() -> int:
    """Print what there is; returns 1 when a device computes wrong results or cannot be used."""
    print(f"Python {platform.python_version()} on {platform.platform()}, NumPy {np.__version__}")
    print(f"ggml-python {library.ggml.__version__}, ggml {library.version()}")
    parts = ["Vulkan: " + ("yes" if library.HAS_VULKAN else "no"), f"BLAS: {devices.blas_name() or 'no'}"]
    print(f"build: {', '.join(parts)}; CPU kernels: {' '.join(library.cpu_features()) or 'plain'}")
    print(f"products on Vulkan: {library.matmul_precision()!r} precision")
    with contextlib.suppress(ValueError):  # of GGMLPY_AG_NUM_THREADS: opening the CPU device, below, says so
        print(f"CPU threads: {devices.thread_count()}")
    for name in VARIABLES:
        if name in os.environ:
            print(f"environment: {name}={os.environ[name]}")
    problems = _vulkan_problems()
    print("devices:")
    for info in devices.devices():
        problems += _show_device(info)
    try:
        print(f"default device: {devices.default_name()}")
    except ValueError as error:
        problems.append(str(error))
    for problem in problems:
        print(f"problem: {problem}")
    if not problems:
        print("no problems found")
    return 1 if problems else 0


def _show_device(info: devices.DeviceInfo) -> list[str]:
    free, total = info.memory()
    print(f"  {info}")
    print(f"    memory: {format_bytes(total)}, {format_bytes(free)} free as the driver says")
    if info.adapter:
        a = info.adapter
        print(f"    driver: {a.driver}, Vulkan {a.api}")
        print(
            f"    limits: {format_bytes(a.max_storage_buffer)} a tensor, {a.max_workgroups_x} workgroups, "
            f"{a.max_allocations} allocations"
        )
    try:
        device = devices.get(info.name)
        print(f"    buffers: up to {_size(device.pool.max_block)}, blocks aligned to {device.pool.alignment} bytes")
        error = _product_error(info.name)
    except Exception as failure:  # whatever is wrong with a device is what is asked for here
        return [f"{info.name}: {failure}"]
    print(f"    check: relative error of a float32 product {error:.1e}")
    if not error < (1e-5 if library.matmul_precision() == "highest" else 1e-2):
        return [f"{info.name} computes matrix products wrongly (relative error {error:.1e})"]
    return []


def _size(nbytes: int) -> str:
    return "any size" if nbytes >= 1 << 62 else format_bytes(nbytes)


def _product_error(name: str) -> float:
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((32, 64), np.float32), rng.standard_normal((64, 32), np.float32)
    exact = a.astype(np.float64) @ b
    found = matmul(tensor(a, device=name), tensor(b, device=name)).numpy()
    return float(np.abs(found - exact).max() / np.abs(exact).max())


def _vulkan_problems() -> list[str]:
    adapters = vulkan.adapters()
    if not library.HAS_VULKAN:
        if any(a.kind != "software" for a in adapters):
            return [
                f"this machine has {adapters[0].name}, but ggml-python was built without Vulkan: "
                "`python3 scripts/run.py doctor --vulkan on` says what the build needs"
            ]
        return []
    if not adapters:
        return ["the build has Vulkan, but no driver was found: install the GPU's Vulkan driver"]
    if all(a.kind == "software" for a in adapters) and not any(d.kind == "software" for d in devices.devices()):
        print(f"note: only software Vulkan here ({adapters[0].name}); GGMLPY_AG_SOFTWARE_VULKAN=1 shows it, for tests")
    return []


__all__ = ["doctor"]

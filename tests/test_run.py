"""The set-up script: what it makes of what it finds. (That it builds and installs, every run of CI shows.)"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).resolve().parent.parent / "scripts" / "run.py"
FOUND = {
    "C++ compiler": "c++ 12",
    "BLAS": "/usr/include/openblas/cblas.h",
    "glslc": "shaderc 2023",
    "Vulkan headers": "1.3.290",
    "Vulkan loader": "/usr/lib/libvulkan.so",
    "SPIRV-Headers": "/usr/include/spirv/unified1/spirv.hpp",
}


@pytest.fixture(scope="module")
def run() -> ModuleType:
    spec = importlib.util.spec_from_file_location("run", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_options_follow_what_is_found(run: ModuleType) -> None:
    options = run.cmake_options(FOUND, vulkan=True)
    assert options["GGML_LLAMAFILE"] == options["GGML_NATIVE"] == options["GGML_VULKAN"] == "ON"
    assert options["GGML_BLAS_VENDOR"] == ("Apple" if FOUND["BLAS"] == "Accelerate" else "OpenBLAS")
    assert "vulkan-compat" not in options.get("CMAKE_CXX_FLAGS", "")
    plain = run.cmake_options({**FOUND, "BLAS": ""}, vulkan=False)
    assert "GGML_BLAS" not in plain and "GGML_VULKAN" not in plain and plain["GGML_LLAMAFILE"] == "ON"


def test_old_vulkan_headers_get_the_wrapper(run: ModuleType) -> None:
    for version, wrapped in (("1.3.239", True), ("1.3.274", True), ("1.3.275", False), ("1.4.300", False)):
        options = run.cmake_options({**FOUND, "Vulkan headers": version}, vulkan=True)
        assert ("vulkan-compat" in options.get("CMAKE_CXX_FLAGS", "")) == wrapped


def test_the_key_follows_all_that_the_wheel_depends_on(run: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    def key(found: dict[str, str], vulkan: bool = True) -> str:
        return str(run.cache_directory(run.wheel_recipe(found, run.cmake_options(found, vulkan))).name)

    keys = [
        key(FOUND),
        key(FOUND, vulkan=False),
        key({**FOUND, "C++ compiler": "c++ 13"}),
        key({**FOUND, "glslc": "shaderc 2024"}),
        key({**FOUND, "Vulkan headers": "1.3.239"}),
        key({**FOUND, "BLAS": ""}),
    ]
    monkeypatch.setattr(run, "cpu_features", lambda: "another processor")
    keys.append(key(FOUND))
    assert len(set(keys)) == len(keys)
    assert all(k.startswith("ggml_python-0.0.45-") for k in keys)


@pytest.mark.skipif(os.name != "posix", reason="makes a PATH of symbolic links")
def test_vulkan_on_stops_with_what_is_missing(tmp_path: Path) -> None:
    for name in ("c++", "g++", "apt-get", "dnf", "pacman", "brew"):
        where = shutil.which(name)
        if where:
            (tmp_path / name).symlink_to(where)
    done = subprocess.run(
        [sys.executable, str(SCRIPT), "test", "--vulkan", "on"],
        env={**os.environ, "PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "glslc" in done.stderr
    assert "To install it" in done.stderr

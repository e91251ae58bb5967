#!/usr/bin/env python3
"""Set ggmlpy_ag up and run it, in one command: `python scripts/run.py demo` (or test, shell, doctor).

The ready-made wheels of ggml-python have neither Vulkan nor a BLAS, so this script builds one that has them.
Each step is skipped when its result is there already:

1. Look for the compiler, a BLAS and the parts that Vulkan needs (`look_around`), and choose ggml's build
   options by what is there (`cmake_options`).
2. Make `.venv` in the repository root (`make_venv`).
3. Build ggml-python from its source distribution into a cache that all checkouts share (`cached_wheel`). The
   cache's key covers all that the wheel depends on (`wheel_recipe`), so a stale wheel is never used.
4. Install that wheel, the project (editable) and what the command needs (`install`). A stamp file in `.venv`
   says what is installed, so the next run starts at once.
5. Run the command in the repository root (`run`). Its exit status is that of this script.

Only the standard library is used: there is nothing to install before this.
"""

import argparse
import contextlib
import hashlib
import importlib.util
import json
import os
import platform
import re
import shlex
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
import time
import venv
from pathlib import Path
from subprocess import DEVNULL
from typing import Any, NamedTuple

# The syntax of this file is that of Python 3.6, so that an older Python gets as far as this message.
if sys.version_info < (3, 10):  # noqa: UP036
    sys.exit(f"ggmlpy_ag needs Python 3.10 or newer; this is Python {platform.python_version()}.")

ROOT = Path(__file__).resolve().parent.parent
PYPROJECT = ROOT / "pyproject.toml"
VULKAN_COMPAT = (ROOT / "scripts" / "vulkan-compat").as_posix()
VENV = ROOT / ".venv"
VENV_PYTHON = str(VENV / ("Scripts/python.exe" if os.name == "nt" else "bin/python"))
CORES = os.cpu_count() or 1
# of pytest-xdist; tests of one file may share what one of them made, and tests/conftest.py orders the files
WORKERS = ["-n", "auto", "--maxprocesses", "4", "--dist", "loadfile", "--no-loadscope-reorder"]


class Command(NamedTuple):
    """Something to run: its line in the help, the extras of the project it needs, and what Python is told."""

    help: str
    extras: list[str]
    python: list[str]


COMMANDS = {
    "demo": Command("train on handwritten digits", ["digits", "progress"], ["scripts/demo_digits.py"]),
    "test": Command("run the tests", ["dev"], ["-m", "pytest", *WORKERS]),
    "shell": Command("open Python", [], ["-i", "-c", "import numpy as np, ggmlpy_ag as ag"]),
    "doctor": Command("show what there is to build and run with", [], ["-m", "ggmlpy_ag", "doctor"]),
}

# What a build with Vulkan needs, and what package managers call these parts, a compiler, and a Vulkan driver.
VULKAN_PARTS = ("glslc", "Vulkan headers", "Vulkan loader", "SPIRV-Headers")
PARTS = ("C++ compiler", *VULKAN_PARTS, "driver")
PACKAGES = {
    "apt-get install": "g++ glslc libvulkan-dev libvulkan-dev spirv-headers mesa-vulkan-drivers",
    "dnf install": "gcc-c++ glslc vulkan-headers vulkan-loader-devel spirv-headers-devel mesa-vulkan-drivers",
    "pacman -S": "gcc shaderc vulkan-headers vulkan-icd-loader spirv-headers vulkan-swrast",
    "brew install": "gcc shaderc vulkan-headers vulkan-loader spirv-headers molten-vk",
}


def say(text: str, end: str = "\n") -> None:
    """Print on stderr: stdout belongs to the program that is run."""
    print(text, end=end, file=sys.stderr, flush=True)


def output(*command: str) -> str:
    """What `command` prints, or "" where it is missing or fails."""
    try:
        done = subprocess.run(command, stdin=DEVNULL, capture_output=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return ""
    return done.stdout.decode(errors="replace").strip()


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]


def ended(process: subprocess.Popen[bytes], seconds: float) -> bool:
    """Whether `process` ends within so many seconds."""
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(seconds)
    return process.returncode is not None


def run_logged(what: str, command: list[str], log: Path, **variables: str) -> None:
    """Run `command` with its output in `log`, showing how far it is. If it fails, show the end and stop."""
    say(f"{what}\n  log: {log}")
    terminal = sys.stderr.isatty()
    start, step = time.monotonic(), (b"", 0)

    def report(text: str, end: str) -> None:
        minutes, seconds = divmod(int(time.monotonic() - start), 60)
        line = f"  {minutes} min {seconds:02} s  {text}"
        say(f"\r{line:40}" if terminal else line, end)

    with log.open("wb") as sink, log.open("rb") as news:
        env = {**os.environ, **variables}
        process = subprocess.Popen(command, cwd=ROOT, env=env, stdin=DEVNULL, stdout=sink, stderr=sink)
        try:
            while not ended(process, 0.5 if terminal else 30):
                # Ninja logs "[12/307]", make "[ 4%]". A build inside the build counts from 1 again.
                steps = re.findall(rb"^ *(\[ *(\d+)(?:/\d+|%)\])", news.read(), re.MULTILINE)
                step = max([step, *steps], key=lambda found: int(found[1]))
                report(step[0].decode(), end="" if terminal else "\n")
        except KeyboardInterrupt:
            ended(process, 10)  # Ctrl-C reached it as well: let it remove its temporary files
            raise
        finally:
            process.kill()
    report("failed" if process.returncode else "done", end="\n")
    if process.returncode:
        lines = log.read_text("utf-8", "replace").splitlines()
        sys.exit("\n".join([*(line[:300] for line in lines[-30:]), f"\nThese are the last lines of {log}"]))


def find(*patterns: str) -> str:
    """The first file that matches one of the glob patterns in the places where CMake looks as well, or ""."""
    own = [os.environ.get("VULKAN_SDK", ""), *os.environ.get("CMAKE_PREFIX_PATH", "").split(os.pathsep)]
    for place in filter(None, [*own, "/usr", "/usr/local", "/opt/homebrew"]):
        for pattern in patterns:
            for path in sorted(Path(place).glob(pattern)):
                return str(path)
    return ""


def compiler_version() -> str:
    """What the C++ compiler says of itself, which doesn't depend on where it lies."""
    if sys.platform == "win32":  # CMake asks the same program for Visual Studio, which isn't on the PATH
        vswhere = os.environ.get("PROGRAMFILES(X86)", "") + "/Microsoft Visual Studio/Installer/vswhere.exe"
        version = output(vswhere, "-latest", "-products", "*", "-property", "installationVersion")
        if version:
            return f"Visual Studio {version}"
    own = os.environ.get("CXX")
    for name in [own] if own else ["c++", "g++", "clang++"]:
        version = output(*shlex.split(name), "--version")
        if version:
            return version.splitlines()[0]
    return ""


def vulkan_header_version() -> str:
    header = find("include/vulkan/vulkan_core.h")
    text = Path(header).read_text("utf-8") if header else ""
    version = re.search(r"VK_MAKE_API_VERSION\(0, (\d+), (\d+), VK_HEADER_VERSION\)", text)
    patch = re.search(r"#define VK_HEADER_VERSION (\d+)", text)
    return f"{version[1]}.{version[2]}.{patch[1]}" if version and patch else ""


def look_around() -> dict[str, str]:
    """What there is to build with: for each part its version, or where it lies, or "" if it is missing."""
    openblas = find("include/openblas*/cblas.h", "include/*/openblas*/cblas.h")
    loader = find("lib*/libvulkan.so", "lib/*/libvulkan.so", "lib/libvulkan.dylib", "Lib/vulkan-1.lib")
    return {
        "C++ compiler": compiler_version(),
        "BLAS": "Accelerate" if sys.platform == "darwin" else openblas,
        "glslc": output("glslc", "--version"),
        "Vulkan headers": vulkan_header_version(),
        "Vulkan loader": loader,
        "SPIRV-Headers": find("include/spirv/unified1/spirv.hpp", "include/spirv-headers/spirv.hpp"),
    }


def how_to_install(*parts: str) -> str:
    if sys.platform == "win32" and "C++ compiler" in parts:
        return "Visual Studio Build Tools with “Desktop development with C++”"
    if sys.platform == "win32":
        return "the LunarG Vulkan SDK, https://vulkan.lunarg.com, and the GPU's driver"
    if sys.platform == "darwin" and "C++ compiler" in parts:
        return "xcode-select --install"
    for manager, names in PACKAGES.items():
        if shutil.which(manager.split()[0]):
            package = dict(zip(PARTS, names.split(), strict=True))
            return f"{manager} " + " ".join(dict.fromkeys(package[part] for part in parts))
    return "the packages of your system with " + ", ".join(parts)


def cmake_options(found: dict[str, str], vulkan: bool) -> dict[str, str]:
    """The options that ggml is built with."""
    options = {
        "GGML_LLAMAFILE": "ON",  # tinyBLAS: fast matrix products where BLAS isn't used
        "GGML_NATIVE": "ON",  # all that this CPU can do; the wheel's key holds the CPU's features
    }
    if found["BLAS"]:  # fast products of large matrices
        apple = found["BLAS"] == "Accelerate"
        options.update(GGML_BLAS="ON", GGML_BLAS_VENDOR="Apple" if apple else "OpenBLAS")
        if not apple:
            options["BLAS_INCLUDE_DIRS"] = str(Path(found["BLAS"]).parent)  # else ggml insists on pkg-config
    flags = []
    if sys.platform != "win32":
        # Without errno a square root is one vector instruction: ggml's AdamW step runs 5 times as fast, with the
        # same results.
        flags += ["-fno-math-errno", "-fno-trapping-math"]
        options["CMAKE_C_FLAGS"] = " ".join(flags)
    if vulkan:
        options["GGML_VULKAN"] = "ON"
        if int(found["Vulkan headers"].split(".")[-1]) < 275:  # ggml uses names that these headers lack
            flags.append(f'-I"{VULKAN_COMPAT}"')
    if flags:
        options["CMAKE_CXX_FLAGS"] = " ".join(flags)
    return options


def make_venv() -> None:
    if output(VENV_PYTHON, "-m", "pip", "--version"):
        return
    if not importlib.util.find_spec("ensurepip"):
        sys.exit("This Python makes no virtual environments; for Debian's: apt-get install python3-venv")
    say(f"Making {VENV}")
    venv.create(VENV, clear=True, symlinks=os.name != "nt", with_pip=True)


def cpu_features() -> str:
    """What GGML_NATIVE looks at: the CPU's feature flags, or its name where the system doesn't list them."""
    cpuinfo = Path("/proc/cpuinfo")
    text = cpuinfo.read_text("utf-8") if cpuinfo.exists() else ""
    flags = re.search(r"^(?:flags|features|isa)\s*:(.*)$", text, re.MULTILINE | re.IGNORECASE)
    if flags:
        return " ".join(sorted(set(flags[1].split())))
    return output("sysctl", "-n", "machdep.cpu.brand_string") or platform.processor()


def wheel_recipe(found: dict[str, str], options: dict[str, str]) -> dict[str, Any]:
    """All that the wheel depends on."""
    tools = ["C++ compiler", *(["glslc", "Vulkan headers"] if "GGML_VULKAN" in options else [])]
    variables = ["CC", "CFLAGS", "CXXFLAGS", "LDFLAGS", "CMAKE_ARGS"]
    return {
        "ggml-python": re.findall(r"ggml-python==([\w.]+)", PYPROJECT.read_text("utf-8"))[0],
        "options": options,
        "tools": {tool: found[tool] for tool in tools},
        "environment": {name: os.environ[name] for name in variables if name in os.environ},
        "platform": sysconfig.get_platform(),
        "cpu": cpu_features(),
    }


def cache_directory(recipe: dict[str, Any]) -> Path:
    """Where the wheel of `recipe` is, or is to be."""
    if sys.platform == "win32":
        user_cache = os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local"
    elif sys.platform == "darwin":
        user_cache = Path.home() / "Library" / "Caches"
    else:
        user_cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    cache = Path(os.environ.get("GGMLPY_AG_CACHE") or Path(user_cache, "ggmlpy_ag")).absolute()
    text = json.dumps(recipe, sort_keys=True, ensure_ascii=False)
    # What the wrapper of the Vulkan headers contains counts, not where this checkout has it.
    wrapper = digest(Path(VULKAN_COMPAT, "vulkan", "vulkan.hpp").read_bytes())
    key = digest(text.replace(VULKAN_COMPAT, wrapper).encode())
    return cache / f"ggml_python-{recipe['ggml-python']}-{key}"


def cached_wheel(recipe: dict[str, Any], directory: Path) -> Path:
    """The wheel of `recipe`, built into `directory` unless it is there."""
    for wheel in directory.glob("*.whl"):
        return wheel
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "recipe.json").write_text(json.dumps(recipe, indent=2), "utf-8")  # for the curious
    version, vulkan = recipe["ggml-python"], "GGML_VULKAN" in recipe["options"]
    minutes = 1 + (6 if vulkan else 1) // CORES  # measured: 5 min and 1 min of one core
    defines = shlex.join(f"-D{name}={value}" for name, value in recipe["options"].items())
    pip_wheel = [VENV_PYTHON, "-m", "pip", "wheel", f"ggml-python=={version}", "--no-deps", "--verbose"]
    pip_wheel += ["--no-binary", "ggml-python", "--no-cache-dir"]  # pip's cache doesn't know of the options
    # The wheel is moved into place when it is whole: a build that fails leaves none behind, and of two builds
    # at the same time the second replaces the wheel of the first by an equal one.
    with tempfile.TemporaryDirectory(dir=directory, ignore_cleanup_errors=True) as scratch:
        run_logged(
            f"Building ggml-python {version}{' with Vulkan' * vulkan}; this takes about {minutes} min, once",
            [*pip_wheel, "--wheel-dir", scratch],
            directory / f"build-{os.getpid()}.log",
            CMAKE_ARGS=f"{defines} {os.environ.get('CMAKE_ARGS', '')}",
            CMAKE_BUILD_PARALLEL_LEVEL=os.environ.get("CMAKE_BUILD_PARALLEL_LEVEL", str(CORES)),
        )
        wheel = next(Path(scratch).glob("*.whl"))
        os.replace(wheel, directory / wheel.name)
    return directory / wheel.name


def install(recipe: dict[str, Any], extras: list[str], packages: list[str]) -> None:
    """Have the wheel of `recipe`, the project with `extras`, and `packages` in `.venv`."""
    directory, stamp_file = cache_directory(recipe), VENV / "ggmlpy_ag.json"
    stamp: dict[str, Any] = {}
    if Path(VENV_PYTHON).exists():
        with contextlib.suppress(OSError, ValueError):
            stamp = json.loads(stamp_file.read_text("utf-8"))
    wanted = {
        "checkout": str(ROOT),
        "wheel": directory.name,
        "pyproject": digest(PYPROJECT.read_bytes()),
        # What an earlier command needed is kept, so that two commands in turn don't install in turn.
        "extras": sorted({*extras, *stamp.get("extras", [])}),
        "packages": packages or stamp.get("packages", []),
    }
    if stamp == wanted:
        return
    make_venv()
    wheel = cached_wheel(recipe, directory)
    stamp_file.unlink(missing_ok=True)  # nothing is sure until all is installed
    pip, log = [VENV_PYTHON, "-m", "pip", "install"], VENV / "install.log"
    if stamp.get("wheel") != directory.name:  # by force, as wheels of other builds have the same version
        run_logged("Installing ggml-python", [*pip, "--force-reinstall", "--no-deps", str(wheel)], log)
    project = f".[{','.join(wanted['extras'])}]" if wanted["extras"] else "."
    what = " ".join(["Installing the project:", project, *packages])
    run_logged(what, [*pip, "--editable", project, *packages], log)
    stamp_file.write_text(json.dumps(wanted, indent=2), "utf-8")


def run(arguments: list[str]) -> int:
    os.chdir(ROOT)
    if os.name == "posix":  # signals and the exit status are then the program's own
        os.execv(VENV_PYTHON, [VENV_PYTHON, *arguments])
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the program
    return subprocess.call([VENV_PYTHON, *arguments])


def parse(arguments: list[str]) -> tuple[argparse.Namespace, list[str]]:
    """Our own options, and the arguments for the program."""
    parser = argparse.ArgumentParser(
        description="Set ggmlpy_ag up in .venv and run it. The first run builds ggml, which takes minutes.",
        epilog="All other arguments go to the program, and so does everything after --. Built wheels are in "
        "the directory GGMLPY_AG_CACHE, by default ggmlpy_ag in the user's cache directory.",
        allow_abbrev=False,
    )
    commands = "; ".join(f"{name}: {command.help}" for name, command in COMMANDS.items())
    vulkan = "auto: build with Vulkan if its parts are found; on: stop if they aren't; off: build without"
    package = "install this package as well; may be repeated"
    add = parser.add_argument
    add("command", choices=COMMANDS, help=commands)
    add("--vulkan", choices=["auto", "on", "off"], default="auto", help=vulkan)
    add("--with", dest="packages", metavar="PACKAGE", action="append", default=[], help=package)
    if not arguments:
        parser.print_help()
        sys.exit()
    end = arguments.index("--") if "--" in arguments else len(arguments)
    ours, others = parser.parse_known_args(arguments[:end])
    return ours, others + arguments[end + 1 :]


def main() -> int:
    ours, arguments = parse(sys.argv[1:])
    command = COMMANDS[ours.command]
    found = look_around()
    missing = [part for part in VULKAN_PARTS if not found[part]]
    vulkan = ours.vulkan != "off" and not missing
    recipe = wheel_recipe(found, cmake_options(found, vulkan))

    if ours.command == "doctor":
        options = " ".join(f"{name}={value}" for name, value in recipe["options"].items())
        for name, value in {**found, "options": options, "wheel": str(cache_directory(recipe))}.items():
            print(f"{name:16}{value.splitlines()[0] if value else 'missing'}", flush=True)
    if not found["C++ compiler"]:
        sys.exit(f"There is no C++ compiler to build ggml. To get one: {how_to_install('C++ compiler')}")
    if missing and ours.vulkan != "off":
        say(f"A build with Vulkan needs what wasn't found here: {', '.join(missing)}")
        say(f"To install it, and a driver if the GPU has none yet: {how_to_install(*missing, 'driver')}")
        if ours.vulkan == "on":
            return 2
        say("Going on with the CPU alone.")

    install(recipe, command.extras, ours.packages)
    if ours.command == "test" and ours.vulkan == "on":
        arguments = ["--require-device", "vulkan", *arguments]
    return run([*command.python, *arguments])


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        say("\nInterrupted.")
        sys.exit(130)

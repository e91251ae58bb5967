"""The command line: `python -m ggmlpy_ag devices | doctor | demo NAME | tape SCRIPT.py`."""

from __future__ import annotations

import argparse
import ast
import json
import runpy
import sys
from collections.abc import Sequence
from pathlib import Path

from .backend import devices
from .doctor import doctor
from .report import command


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit status."""
    found = parse(arguments)
    try:
        if found.command == "doctor":
            return doctor()
        if found.command == "devices":
            return show_devices(found.json)
        if found.command == "tape":
            return command.run(found)
        return demo(found.name, found.options) if found.name else show_demos()
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130  # as shells report a program that Ctrl-C ended


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command and its options."""
    parser = argparse.ArgumentParser(
        prog="python -m ggmlpy_ag",
        description="Train neural networks on ggml's Vulkan and CPU backends.",
        epilog="`python -m ggmlpy_ag COMMAND --help` explains a command.",
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    about = "list the devices that this build of ggml can use"
    add = commands.add_parser(
        "devices",
        help=about,
        description=f"{about.capitalize()}, GPUs first, and mark the default one: what GGMLPY_AG_DEVICE names, else "
        "the first discrete or integrated GPU, else the CPU.",
    )
    add.add_argument("--json", action="store_true", help="print a JSON list, with the bytes of memory of each device")

    about = "show versions, devices, limits and precision, and try every device"
    commands.add_parser(
        "doctor",
        help=about,
        description=f"{about.capitalize()}. The exit status is 1 when a device cannot be used, computes wrong results, "
        "or a GPU is left out; the last lines then say what to do.",
    )

    add = commands.add_parser(
        "demo",
        help="train a small network on real data",
        usage="%(prog)s [-h] [NAME [OPTION ...]]",
        description="Train a small network on real data. Without a name, list the demos; NAME --help shows the options "
        "of one. The exit status is 1 when the demo misses its goal.",
    )
    add.add_argument("name", nargs="?", choices=demos(), metavar="NAME", help=", ".join(demos()))
    add.add_argument("options", nargs=argparse.REMAINDER, metavar="OPTION", help="goes to the demo")

    about = "run a script and report on the memory of its tape"
    add = commands.add_parser(
        "tape",
        help=about,
        usage="%(prog)s [-h] [OPTION ...] SCRIPT.py [ARGUMENT ...]",
        description=f"{about.capitalize()}, where that is highest after a backward pass, by operation, layer and line. "
        "The script runs as it is, and its exit status is passed on.",
    )
    command.add_arguments(add)
    return parser.parse_args(arguments)


def show_devices(as_json: bool) -> int:
    """Print the devices, the default one marked; returns 2 when GGMLPY_AG_DEVICE names none of them."""
    try:
        default = devices.default_name()
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    infos = devices.devices()
    if as_json:
        memory = [dict(zip(("free", "total"), info.memory(), strict=True)) for info in infos]
        rows = [
            {"name": i.name, "kind": i.kind, "description": i.description, "default": i.name == default, "memory": m}
            for i, m in zip(infos, memory, strict=True)
        ]
        print(json.dumps(rows, indent=2))
    else:
        for info in infos:
            print(f"{info}{'  [default]' * (info.name == default)}")
    return 0


def demos() -> dict[str, Path]:
    """The demos by name: in an installed package its own folder has them, in a checkout scripts/."""
    package = Path(__file__).parent
    installed = package / "demos"
    files = sorted((installed if installed.is_dir() else package.parent / "scripts").glob("demo_*.py"))
    return {f.stem.removeprefix("demo_"): f for f in files if f.stem != "demo_tools"}


def show_demos() -> int:
    """Print a line for each demo: its name and the first sentence of its docstring."""
    for name, path in demos().items():
        text = ast.get_docstring(ast.parse(path.read_text("utf-8"))) or ""
        print(f"{name:12} {' '.join(text.split()).partition('. ')[0].removesuffix('.')}")
    return 0


def demo(name: str, options: Sequence[str]) -> int:
    """Run a demo as the program that it is; it ends with SystemExit and its own status."""
    path = demos()[name]
    sys.argv = [str(path), *options]
    sys.path.insert(0, str(path.parent))  # the demos share a module there
    runpy.run_path(str(path), run_name="__main__")
    return 0


__all__ = ["main"]

"""The package as a user gets it: a wheel and a source distribution, each installed into a fresh environment."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
DEMOS = sorted((ROOT / "scripts").glob("demo_*.py"))


def run(*command: str | Path, cwd: Path) -> str:
    """What a program prints; PYTHONPATH shows it nothing of this checkout."""
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run([*map(str, command)], cwd=cwd, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The source distribution, and the wheel that was made from it."""
    pytest.importorskip("build", reason="it and hatchling are in the test extra")
    folder = tmp_path_factory.mktemp("dist")
    # no isolation: hatchling is taken from here, and no package index is needed
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, ROOT, cwd=folder)
    assert len(list(folder.iterdir())) == 2
    return {"wheel": next(folder.glob("*.whl")), "sdist": next(folder.glob("*.tar.gz"))}


def sources(*folders: str) -> set[str]:
    """The files of these folders that belong to the project, relative to its root."""
    found = (path for folder in folders for path in (ROOT / folder).rglob("*"))
    return {p.relative_to(ROOT).as_posix() for p in found if p.is_file() and "__pycache__" not in p.parts}


def test_the_wheel_has_the_package_and_the_demos_and_nothing_else(dist: dict[str, Path]) -> None:
    with zipfile.ZipFile(dist["wheel"]) as wheel:
        names = {name for name in wheel.namelist() if ".dist-info/" not in name}
    assert names == sources("ggmlpy_ag") | {f"ggmlpy_ag/demos/{path.name}" for path in DEMOS}


def test_the_source_distribution_has_what_builds_and_tests_it_and_nothing_else(dist: dict[str, Path]) -> None:
    with tarfile.open(dist["sdist"]) as archive:
        names = {member.name.partition("/")[2] for member in archive if member.isfile()}
    files = {"CHANGELOG.md", "CONTRIBUTING.md", "LICENSE", "README.md", "pyproject.toml"}
    assert names - {".gitignore", "PKG-INFO"} == files | sources("ggmlpy_ag", "scripts", "shaders", "tests", "docs")


@pytest.mark.parametrize("kind", ["wheel", "sdist"])
def test_a_fresh_environment_passes_the_smoke_test(kind: str, dist: dict[str, Path], tmp_path: Path) -> None:
    fresh = tmp_path / "fresh"
    venv.create(fresh, symlinks=os.name != "nt")
    python = fresh / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    packages = Path(run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=tmp_path).strip())
    # What it depends on, and pip, are those of this environment. The checkout is not seen there: a .pth file is not
    # read in a folder that another one names.
    (packages / "others.pth").write_text("\n".join({sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}))
    pip = [python, "-m", "pip", "install", "--no-deps", "--no-index", "--no-build-isolation", "--ignore-installed"]
    run(*pip, dist[kind], cwd=tmp_path)
    lines = run(python, ROOT / "scripts" / "smoke.py", cwd=tmp_path).splitlines()
    assert lines[0].endswith(f" in {packages / 'ggmlpy_ag'}")
    assert [line.partition(":")[0] for line in lines] == [
        "import", "types", "training", "devices", "demos", "demo digits"
    ]  # fmt: skip
    assert "left out" not in lines[-1]

"""The exporter's own code: ruff and strict mypy find nothing, and the wheel works with its dependencies alone."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import venv
import zipfile
from email import message_from_bytes
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

import pytest

EXPORTER = Path(__file__).parent.parent


def needs(module: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(find_spec(module) is None, reason=f"needs {module}, from requirements-test.txt")


def python(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", *arguments], cwd=EXPORTER, check=False, capture_output=True, text=True)


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param(["ruff", "check"], marks=needs("ruff")),
        pytest.param(["ruff", "format", "--check"], marks=needs("ruff")),
        pytest.param(["mypy"], marks=needs("mypy")),
    ],
    ids=" ".join,
)
def test_a_tool_finds_nothing(arguments: list[str]) -> None:
    done = python(*arguments)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("text", "code", "arguments"),
    [
        pytest.param("import os\n", "F401", ["ruff", "check"], marks=needs("ruff")),
        pytest.param(
            "x = {  'a':1 }\n", "1 file would be reformatted", ["ruff", "format", "--check"], marks=needs("ruff")
        ),
        pytest.param("def f(x):\n    return x\n", "no-untyped-def", ["mypy"], marks=needs("mypy")),
    ],
)
def test_a_planted_fault_is_found(tmp_path: Path, text: str, code: str, arguments: list[str]) -> None:
    planted = tmp_path / "planted.py"
    planted.write_text(f'"""A planted fault."""\n\n{text}')
    own = ["--config", "pyproject.toml"] if arguments[0] == "ruff" else ["--config-file", "pyproject.toml"]
    done = python(*arguments, *own, str(planted))
    assert done.returncode == 1
    assert code in done.stdout + done.stderr


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Builds the wheel with the locked build backend, without a network, from a copy of the tracked folders."""
    if find_spec("hatchling") is None:
        pytest.skip("needs hatchling, from requirements-test.txt")
    source, out = tmp_path_factory.mktemp("source") / "exporter", tmp_path_factory.mktemp("wheel")
    ignored = shutil.ignore_patterns("__pycache__", "references", ".*")
    shutil.copytree(EXPORTER, source, ignore=ignored)
    build = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(out)]
    done = subprocess.run(build, cwd=source, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    (built,) = out.iterdir()
    return built


def test_the_wheel_holds_the_package_and_its_metadata(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        (info,) = {name.split("/")[0] for name in names if ".dist-info/" in name}
        fields = message_from_bytes(archive.read(f"{info}/METADATA"))
    package = {f"parity_export/{path.name}" for path in (EXPORTER / "parity_export").iterdir() if path.is_file()}
    assert "parity_export/py.typed" in package
    assert {name for name in names if not name.startswith(f"{info}/")} == package
    assert {f"{info}/licenses/LICENSE-{name}" for name in ("APACHE", "MIT")} <= set(names)
    assert (fields["Name"], fields["License-Expression"]) == ("parity-export", "MIT OR Apache-2.0")
    assert wheel.name == f"parity_export-{fields['Version']}-py3-none-any.whl"
    assert fields["Requires-Python"] == ">=3.10"
    assert fields.get_all("Requires-Dist") == ["numpy>=2.0", "safetensors>=0.8"]
    assert "Repository, https://github.com/mlx-parity/mlx-parity" in fields.get_all("Project-URL", [])
    assert fields["Description-Content-Type"] == "text/markdown"
    assert str(fields.get_payload()).startswith("# parity_export\n")


USE = """
import sys
from importlib.metadata import version
import numpy as np
from parity_export import run

def reference(rec):
    rec.save("y", np.exp(rec.input("x", np.arange(4, dtype=np.float32))))

report = run(reference, sys.argv[1], script=__file__)
print(version("parity-export"), report["counts"]["floors"], sorted({"torch", "mlx"} & set(sys.modules)))
"""


@pytest.mark.slow
def test_the_wheel_works_in_a_fresh_environment_with_its_dependencies(wheel: Path, tmp_path: Path) -> None:
    home = tmp_path / "environment"
    venv.create(home, symlinks=os.name == "posix")
    (packages,) = home.rglob("site-packages")
    # A wheel of Python files is installed by unpacking it. The dependencies are linked, so nothing is fetched.
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(packages)
    for dependency in ("numpy", "safetensors"):
        for top in {file.parts[0] for file in metadata.files(dependency) or () if file.parts[0] != ".."}:
            found = Path(str(metadata.distribution(dependency).locate_file(top)))
            if found.exists():
                (packages / top).symlink_to(found)
    script = tmp_path / "use.py"
    script.write_text(USE)
    done = subprocess.run(
        [home / "bin" / "python", "-I", str(script), str(tmp_path / "set")],
        cwd=tmp_path,
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{wheel.name.split('-')[1]} 1 []\n"


@pytest.mark.skipif(not (EXPORTER.parent / "LICENSE-MIT").exists(), reason="needs a checkout of the repository")
def test_the_licences_are_those_of_the_repository() -> None:
    for name in ("LICENSE-APACHE", "LICENSE-MIT"):
        assert (EXPORTER / name).read_bytes() == (EXPORTER.parent / name).read_bytes()

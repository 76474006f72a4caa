"""A folder always holds the complete old set or the complete new one, and the user's files are never lost."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from parity_export import Recorder, folder
from parity_export.folder import FolderError


def make(out: Path, mark: int, **options: Any) -> None:
    with Recorder(out, script=__file__, **options) as rec:
        rec.save("a", np.arange(8) + mark)
        rec.save("b", np.arange(9) + mark)


def test_what_is_not_part_of_a_set_is_never_lost(tmp_path: Path) -> None:
    make(tmp_path / "set", 1)
    (tmp_path / "set" / "notes.txt").write_text("mine")
    with pytest.raises(FolderError, match=r"notes\.txt` is not part of the set and would be lost; move it away first"):
        make(tmp_path / "set", 2)
    (tmp_path / "set" / "notes.txt").rename(tmp_path / "set" / ".notes")
    make(tmp_path / "set", 2)
    assert (tmp_path / "set" / ".notes").read_text() == "mine"

    for mine in ("mine.npy", ".hidden/notes", "deep/.notes", "empty/"):
        path = tmp_path / "set" / mine
        path.parent.mkdir(exist_ok=True)
        path.mkdir() if mine.endswith("/") else path.write_text("mine")
        with pytest.raises(FolderError, match="is not part of the set and would be lost"):
            make(tmp_path / "set", 3)
        assert path.exists()
        path.rmdir() if mine.endswith("/") else path.unlink()
        if path.parent.name != "set":
            path.parent.rmdir()
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "set" / "manifest.json").rename(tmp_path / "manifest.json")
    (tmp_path / "pipe").rename(tmp_path / "set" / "manifest.json")
    with pytest.raises(FolderError, match=r"has no readable manifest\.json; only a set is replaced"):
        make(tmp_path / "set", 3)
    (tmp_path / "manifest.json").rename(tmp_path / "set" / "manifest.json")

    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "thesis.tex").write_text("mine")
    with pytest.raises(FolderError, match=r"is not empty and has no readable manifest\.json"):
        make(tmp_path / "home", 1)
    make(tmp_path / "outer" / "inner", 1)
    with pytest.raises(FolderError, match=r"has another set inside it, .*inner`, which would be lost"):
        make(tmp_path / "outer", 1)
    (tmp_path / "file").write_text("")
    with pytest.raises(FolderError, match="is a file, expected a folder"):
        make(tmp_path / "file", 1)


def test_what_appears_after_the_check_is_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make(tmp_path / "set", 1)
    with folder.replacing(tmp_path / "set") as aside:
        for name in ("goldens.safetensors", "manifest.json"):
            (aside / name).write_bytes((tmp_path / "set" / name).read_bytes())
        (tmp_path / "set" / "deep").mkdir()
        (tmp_path / "set" / "deep" / "mine.txt").write_text("mine")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["set", "set.kept-1"]
    assert [path.as_posix() for path in (tmp_path / "set.kept-1").rglob("*.*")] == [
        f"{tmp_path}/set.kept-1/deep/mine.txt"
    ]
    assert "; kept in `" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["../mine.txt", "{home}/mine.txt", "linked/mine.txt", "", ".", ".."])
def test_a_manifest_cannot_name_files_outside_its_set(tmp_path: Path, name: str) -> None:
    home, out = tmp_path / "home", tmp_path / "home" / "set"
    make(out, 1)
    (home / "mine.txt").write_text("mine")
    manifest = json.loads((out / "manifest.json").read_text())
    manifest["tensors"].append({**manifest["tensors"][0], "file": name.format(home=home)})
    (out / "manifest.json").write_text(json.dumps(manifest))
    with folder.replacing(out) as aside:
        (aside / "manifest.json").write_text("{}")
        if name.startswith("linked"):
            (out / "linked").symlink_to(home)
    assert (home / "mine.txt").read_text() == "mine"
    assert (out / "manifest.json").read_text() == "{}"


KILLED_AFTER_THE_SWAP = """
import os, sys
from pathlib import Path
from parity_export import folder
out = Path(sys.argv[1])
folder._remove_set = lambda old, target: os._exit(9)
with folder.replacing(out) as aside:
    (aside / "manifest.json").write_text('{"tensors": []}')
    (out / "mine.txt").write_text("mine")
"""


def test_a_run_killed_after_the_swap_loses_no_files_of_others(tmp_path: Path) -> None:
    make(tmp_path / "set", 1)
    run = subprocess.run([sys.executable, "-c", KILLED_AFTER_THE_SWAP, str(tmp_path / "set")], check=False)
    assert run.returncode == 9
    folder.restore(tmp_path / "set")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["set", "set.kept-1"]
    assert [path.name for path in (tmp_path / "set").iterdir()] == ["manifest.json"]
    assert [path.name for path in (tmp_path / "set.kept-1").iterdir()] == ["mine.txt"]


def test_an_old_set_that_cannot_be_removed_loses_no_files_of_others(tmp_path: Path) -> None:
    make(tmp_path / "set", 1)

    def fail(old: Path, target: Path) -> None:
        raise OSError(5, "Input/output error")

    def replace() -> None:
        with folder.replacing(tmp_path / "set") as aside:
            (aside / "manifest.json").write_text('{"tensors": []}')
            (tmp_path / "set" / "mine.txt").write_text("mine")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(folder, "_remove_set", fail)
        with pytest.raises(OSError, match="Input/output error"):
            replace()
    make(tmp_path / "set", 2)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["set", "set.kept-1"]
    assert [path.name for path in (tmp_path / "set.kept-1").iterdir()] == ["mine.txt"]


def test_a_set_about_to_be_exchanged_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make(tmp_path / "set", 1)
    exchange = folder._exchange

    def while_another_run_starts(left: Path, right: Path) -> bool:
        folder.restore(right)
        done = exchange(left, right)
        folder.restore(right)
        assert left.exists()
        return done

    monkeypatch.setattr(folder, "_exchange", while_another_run_starts)
    make(tmp_path / "set", 2)
    files = ["goldens.safetensors", "manifest.json", "recipes.json"]
    assert sorted(path.name for path in (tmp_path / "set").iterdir()) == files
    assert [path.name for path in tmp_path.iterdir()] == ["set"]


def test_a_failed_exchange_leaves_the_old_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make(tmp_path / "set", 1)
    before = (tmp_path / "set" / "manifest.json").read_bytes()

    def fail(left: Path, right: Path) -> bool:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(folder, "_exchange", fail)
    with pytest.raises(OSError, match="Input/output error"):
        make(tmp_path / "set", 2)
    assert (tmp_path / "set" / "manifest.json").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["set"]


def test_nothing_is_written_through_links_or_outside_the_root(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "root").mkdir()
    (tmp_path / "root" / "link").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(FolderError, match="is a symbolic link"):
        make(tmp_path / "root" / "link", 1)
    for path in ("root/link/set", "elsewhere/set", "root/../elsewhere/set", "root"):
        with pytest.raises(FolderError, match="is not below the fixture root"):
            make(tmp_path / path, 1, root=tmp_path / "root")
    assert list((tmp_path / "elsewhere").iterdir()) == []
    make(tmp_path / "root" / "a" / "b", 1, root=tmp_path / "root")
    goldens = tmp_path / "root" / "a" / "b" / "goldens.safetensors"
    goldens.rename(tmp_path / "moved")
    goldens.symlink_to(tmp_path / "moved")
    with pytest.raises(FolderError, match="is a symbolic link"):
        make(tmp_path / "root" / "a" / "b", 2)


def test_where_folders_cannot_be_exchanged_the_gap_is_mended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make(tmp_path / "set", 1)
    monkeypatch.setattr(folder, "_exchange", lambda left, right: False)
    make(tmp_path / "set", 2)
    assert [path.name for path in tmp_path.iterdir()] == ["set"]
    # The state after one run was killed between the two renames and another while it wrote.
    (tmp_path / "set").rename(tmp_path / ".set.old-77")
    (tmp_path / ".set.new-77").mkdir()
    folder.restore(tmp_path / "set")
    assert [path.name for path in tmp_path.iterdir()] == ["set"]
    assert (tmp_path / "set" / "manifest.json").exists()


def test_a_full_disk_leaves_the_old_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make(tmp_path / "set", 1)
    before = (tmp_path / "set" / "manifest.json").read_bytes()

    def full(path: Path, tensors: object) -> None:
        path.write_bytes(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("parity_export.files.write", full)
    with pytest.raises(OSError, match="No space left"):
        make(tmp_path / "set", 2)
    assert (tmp_path / "set" / "manifest.json").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["set"]


CHILD = """
import sys, numpy as np
from parity_export import Recorder
mark = 0
while True:
    mark += 1
    with Recorder(sys.argv[1], script=__file__, lint="report") as rec:
        for name in "abcd":
            rec.save(name, np.full(50, mark) + np.arange(50) % 2)
    print(mark, flush=True)
"""


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="needs signals")
def test_killed_at_any_moment_the_set_is_whole(tmp_path: Path) -> None:
    script = tmp_path / "loop.py"
    script.write_text(CHILD)
    out = tmp_path / "sets" / "set"
    chance = random.Random(7)
    for _ in range(8):
        child = subprocess.Popen(
            [sys.executable, str(script), str(out)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        assert child.stdout is not None
        assert child.stdout.readline()
        time.sleep(chance.random() * 0.02)
        child.send_signal(signal.SIGKILL)
        child.wait()
        child.stdout.close()
        folder.restore(out)
        from parity_export import files

        entries = json.loads((out / "manifest.json").read_text())["tensors"]
        held = files.read(out / "goldens.safetensors")
        assert sorted(held) == [entry["name"] for entry in entries] == list("abcd")
        assert all(held[entry["name"]].sha256() == entry["sha256"] for entry in entries)
        assert len({int(value.bits[0]) for value in held.values()}) == 1
        assert [path.name for path in out.parent.iterdir()] == ["set"]

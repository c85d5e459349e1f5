"""Files are written whole or not at all, and what cannot be written is named."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from rollout_assets.core.errors import RunDataError
from rollout_assets.core.files import write_text, written_beside


def test_an_error_on_the_way_leaves_what_was_there_and_nothing_beside(tmp_path: Path) -> None:
    target = tmp_path / "folder" / "file.txt"
    write_text(target, "before")
    with pytest.raises(RuntimeError), written_beside(target) as temporary:
        temporary.write_text("half")
        raise RuntimeError
    assert target.read_text() == "before"
    assert list(target.parent.iterdir()) == [target]


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (lambda target: target.parent.write_text(""), "File exists|Not a directory"),
        (lambda target: target.mkdir(parents=True), "Is a directory"),
        (lambda target: target.parent.symlink_to("/proc/self"), "No such file|Permission denied|not permitted"),
    ],
    ids=["file for a folder", "folder for the file", "read-only"],
)
def test_what_cannot_be_written_is_named_with_what_to_do(
    tmp_path: Path, spoil: Callable[[Path], object], says: str
) -> None:
    target = tmp_path / "folder" / "file.txt"
    spoil(target)
    with pytest.raises(RunDataError, match=says) as caught:
        write_text(target, "text")
    assert caught.value.code == "E-UNWRITABLE"
    assert caught.value.path == str(target)
    assert "make room or give write access, or choose another place" in caught.value.reason


def test_a_full_disk_is_named_by_the_file_and_not_by_its_temporary_one(tmp_path: Path) -> None:
    target = tmp_path / "table.parquet"
    with pytest.raises(RunDataError, match=rf"^{target}: cannot be written: No space left"), written_beside(target):
        raise OSError(28, "No space left on device")
    assert list(tmp_path.iterdir()) == []

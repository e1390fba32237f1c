"""Files are complete or absent."""

import errno
import os
import stat

import pytest

from recheck import files
from recheck.errors import UserError
from recheck.files import below, walk


def test_nothing_is_left_when_writing_fails(tmp_path):
    target = tmp_path / "deep" / "file.txt"
    with pytest.raises(RuntimeError), files.atomic(target) as temporary:
        temporary.write_text("half")
        raise RuntimeError
    assert list(target.parent.iterdir()) == []


def test_the_old_content_stays_until_the_new_is_complete(tmp_path):
    target = tmp_path / "file.txt"
    files.write_text(target, "old")
    with pytest.raises(KeyboardInterrupt), files.atomic(target) as temporary:
        temporary.write_text("half")
        assert target.read_text() == "old"
        raise KeyboardInterrupt
    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


def test_files_have_the_usual_permissions(tmp_path):
    with files.atomic(tmp_path / "a") as temporary:
        temporary.unlink()  # like libraries that replace the file themselves
        temporary.write_text("x")
        temporary.chmod(0o600)
    (tmp_path / "b").write_text("x")
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == stat.S_IMODE((tmp_path / "b").stat().st_mode)


@pytest.mark.parametrize(
    ("number", "sentence"),
    [
        (errno.ENOSPC, "No space left while writing"),
        (errno.EDQUOT, "No space left"),
        (errno.EROFS, "cannot be written"),
    ],
)
def test_disk_errors_become_user_errors(tmp_path, number, sentence):
    with pytest.raises(UserError, match=sentence), files.atomic(tmp_path / "x"):
        raise OSError(number, os.strerror(number))


def test_other_system_errors_are_not_hidden(tmp_path):
    with pytest.raises(OSError, match="Input/output"), files.atomic(tmp_path / "x"):
        raise OSError(errno.EIO, os.strerror(errno.EIO))


def test_json_reads_back_to_the_same_bits_and_refuses_nan(tmp_path):
    value = {"a": [0.1 + 0.2, 1e-308, -0.0], "ü": None}
    files.write_json(tmp_path / "x.json", value)
    assert files.read_json(tmp_path / "x.json") == value
    with pytest.raises(ValueError):
        files.write_json(tmp_path / "y.json", float("nan"))
    assert not (tmp_path / "y.json").exists()


def test_broken_json_is_a_user_error(tmp_path):
    (tmp_path / "x.json").write_text('{"a": ')
    with pytest.raises(UserError, match=r"x\.json is not valid JSON"):
        files.read_json(tmp_path / "x.json")


def test_fingerprint_ignores_key_order_and_nothing_else():
    assert files.fingerprint({"a": 1, "b": [1, 2]}) == files.fingerprint({"b": [1, 2], "a": 1})
    assert files.fingerprint({"a": 1}) != files.fingerprint({"a": 1.5})
    assert files.fingerprint([1, 2]) != files.fingerprint([2, 1])


def test_every_file_below_a_folder(tmp_path):
    for name in ("b", "a/c", "a/.hidden", ".git/x"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"")
    (tmp_path / "a" / "link").symlink_to(tmp_path / "b")
    (tmp_path / "a" / "folder").symlink_to(tmp_path)
    (tmp_path / "a" / "loop").symlink_to("loop")
    names = {below(entry, tmp_path) for entry in walk(tmp_path)}
    assert names == {"b", "a/c", "a/.hidden", ".git/x", "a/link"}
    assert {below(entry, f"{tmp_path}/") for entry in walk(f"{tmp_path}/", lambda name: name[0] == ".")} == {
        "b", "a/c", "a/link"
    }  # fmt: skip
    assert list(walk(tmp_path / "nothing")) == []

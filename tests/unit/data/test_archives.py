"""Unpacking archives of every kind, and refusing hostile ones."""

import bz2
import gzip
import io
import json
import lzma
import os
import random
import re
import resource
import shutil
import stat
import subprocess
import sys
import tarfile
import tracemalloc
import zipfile
import zlib

import pytest

from recheck import progress
from recheck.data import archives, tars
from recheck.errors import UserError
from support.faults.crashes import KILLED, crash
from support.project import SCRIPTS
from support.suite.hang import HANG_SECONDS

NOISE = random.Random(0).randbytes(3000)
TREE = {"set/1/a.jpg": b"a" * 700, "set/1/b.jpg": b"", "set/2/a.jpg": NOISE, "set/list.txt": b"x\n"}


def tar_member(name, data=b"", kind=tarfile.REGTYPE, target=""):
    member = tarfile.TarInfo(name)
    member.type, member.linkname, member.size = kind, target, len(data)
    return member, data


def tar(path, *members, compression="gz"):
    with tarfile.open(path, f"w:{compression}", format=tarfile.PAX_FORMAT) as made:
        for member, data in members:
            made.addfile(member, io.BytesIO(data))
    return path


def zip_member(name, data=b"", mode=stat.S_IFREG | 0o644):
    member = zipfile.ZipInfo(name)
    member.filename = name  # unchanged, without Python's corrections
    member.external_attr = mode << 16
    member.compress_type = zipfile.ZIP_DEFLATED
    return member, data


def zipped(path, *members):
    with zipfile.ZipFile(path, "w") as made:
        for member, data in members:
            made.writestr(member, data)
    return path


def extract(tmp_path, *paths, into=".", **more):
    """Unpack as the rule does, with downloads beside the images."""
    entries = [{"path": path.name, "extract": into, **more} for path in paths]
    verified = {path.name: {"sha256": f"hash of {path.name}, {path.stat().st_size}"} for path in paths}
    return archives.extract(entries, tmp_path, verified, tmp_path / "images")


def content(folder):
    files = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if not path.is_dir()}
    assert not [path for path in files.values() if path.is_symlink()]
    return {name: path.read_bytes() for name, path in files.items() if name != archives.RECORD}


def left_in(folder):
    return sorted(path.name for path in folder.iterdir())


def good(path):
    """The same tree in the format given by the archive's name."""
    if path.suffix == ".zip":
        folders = [zip_member("set/", mode=stat.S_IFDIR | 0o755)]
        return zipped(path, *folders, *[zip_member(name, data) for name, data in TREE.items()])
    kind = {".tar": "", ".tgz": "gz", ".bz2": "bz2", ".xz": "xz"}[path.suffix]
    folders = [tar_member("./", kind=tarfile.DIRTYPE), tar_member("./set/", kind=tarfile.DIRTYPE)]
    return tar(path, *folders, *[tar_member(f"./{name}", data) for name, data in TREE.items()], compression=kind)


@pytest.mark.parametrize("name", ["a.tar", "a.tgz", "a.tar.bz2", "a.tar.xz", "a.zip"])
def test_every_kind_is_recognised_by_its_content(tmp_path, name):
    good(tmp_path / name).rename(tmp_path / "renamed.bin")
    about = extract(tmp_path, tmp_path / "renamed.bin")
    assert content(tmp_path / "images") == TREE
    assert about["renamed.bin"]["files"] == len(TREE)
    assert about["renamed.bin"]["bytes"] == sum(map(len, TREE.values()))
    assert json.loads((tmp_path / "images" / archives.RECORD).read_text()) == about
    assert left_in(tmp_path) == ["images", "renamed.bin"]


def test_unpack_into_a_subfolder_and_several_archives_into_one(tmp_path):
    first = tar(tmp_path / "train.tgz", tar_member("ims/1.jpg", b"1"))
    second = zipped(tmp_path / "test.zip", zip_member("ims/2.jpg", b"2"))
    extract(tmp_path, first, second, into="cars/both")
    assert content(tmp_path / "images") == {"cars/both/ims/1.jpg": b"1", "cars/both/ims/2.jpg": b"2"}
    third = zipped(tmp_path / "again.zip", zip_member("./ims//1.jpg", b"other"))
    with pytest.raises(
        UserError,
        match=r"again\.zip was not unpacked, because its member '\./ims//1\.jpg' has the same path as another member",
    ):
        extract(tmp_path, first, third)


def test_a_complete_tree_is_kept_unless_the_archive_changes(tmp_path):
    archive, images = good(tmp_path / "a.tgz"), tmp_path / "images"
    about = extract(tmp_path, archive)
    before = images.stat().st_ino
    assert extract(tmp_path, archive) == about
    assert images.stat().st_ino == before
    (images / "set/1/a.jpg").unlink()
    assert extract(tmp_path, archive) == about
    assert content(images) == TREE
    (images / archives.RECORD).write_text("[]")
    assert extract(tmp_path, archive) == about
    tar(archive, tar_member("new.jpg", b"another archive"))
    extract(tmp_path, archive)
    assert content(images) == {"new.jpg": b"another archive"}
    before = images.stat().st_ino
    extract(tmp_path, archive, into="below")
    assert images.stat().st_ino != before
    assert content(images) == {"below/new.jpg": b"another archive"}


NAMES = [
    ("/etc/evil", "has an absolute path"),
    ("C:evil", "has an absolute path"),
    ("../evil", "leads out of the folder ('..' in its name)"),
    ("set/../../evil", "leads out of the folder ('..' in its name)"),
    ("set\\..\\evil", "has a backslash or a null byte in its name"),
    ("set/1/a.jpg", "has the same path as another member"),
    ("set//1/./a.jpg", "has the same path as another member"),
    ("set/1", "is a file where there is already a folder"),
    ("set/list.txt/below", "needs a folder where there is already a file"),
    ("long" * 100, "has a name that this disk cannot store"),
]
TAR = [
    *[(tar_member(name, b"evil"), why) for name, why in NAMES],
    (tar_member("link", kind=tarfile.SYMTYPE, target="../evil"), "links out of the folder, to '../evil'"),
    (tar_member("set/link", kind=tarfile.SYMTYPE, target="../../evil"), "links out of the folder"),
    (tar_member("link", kind=tarfile.SYMTYPE, target="/etc/passwd"), "links out of the folder, to '/etc/passwd'"),
    (tar_member("link", kind=tarfile.LNKTYPE, target="/etc/passwd"), "links out of the folder, to '/etc/passwd'"),
    (tar_member("set/link", kind=tarfile.LNKTYPE, target="../evil"), "links out of the folder"),
    (tar_member("../link", kind=tarfile.SYMTYPE, target="set"), "leads out of the folder"),
    (tar_member("link", kind=tarfile.SYMTYPE, target="set"), "links to 'set', which is not a file of the archive"),
    (tar_member("link", kind=tarfile.SYMTYPE, target="nothing"), "links to 'nothing', which is not a file of"),
    (tar_member("link", kind=tarfile.SYMTYPE, target=archives.RECORD), "links to '.extracted.json', which is not a f"),
    (tar_member("set/list.txt", kind=tarfile.LNKTYPE, target="set/1/a.jpg"), "has the same path as another member"),
    (tar_member("device", kind=tarfile.CHRTYPE), "is a device, a pipe or another special file"),
    (tar_member("device", kind=tarfile.BLKTYPE), "is a device, a pipe or another special file"),
    (tar_member("pipe", kind=tarfile.FIFOTYPE), "is a device, a pipe or another special file"),
    (tar_member("strange", kind=b"Z"), "is a device, a pipe or another special file"),
]
ZIP = [
    *[(zip_member(name, b"evil"), why) for name, why in NAMES],
    (zip_member("set/evil\0.jpg", b"evil"), "has a backslash or a null byte in its name"),
    (zip_member("link", b"../evil", stat.S_IFLNK | 0o777), "links out of the folder, to '../evil'"),
    (zip_member("link", b"/etc/passwd", stat.S_IFLNK | 0o777), "links out of the folder, to '/etc/passwd'"),
    (zip_member("link", b"set", stat.S_IFLNK | 0o777), "links to 'set', which is not a file of the archive"),
    (zip_member("folder", b"pixels", stat.S_IFDIR | 0o777), "is a folder, but has 6 bytes of content"),
    (zip_member("device", b"", stat.S_IFCHR | 0o666), "is a device, a pipe or a socket"),
    (zip_member("pipe", b"", stat.S_IFIFO | 0o666), "is a device, a pipe or a socket"),
]


TRUST = "delete the archive and get it from a source you trust"
OTHER_DISK = "choose a folder on another disk (config key 'pathvars'), or use another archive"


def refused(tmp_path, archive, member, why, advice=TRUST):
    """The message names archive and member, and only the archive is left."""
    with pytest.raises(UserError) as raised:
        extract(tmp_path, archive)
    shown = member if len(member) <= 200 else f"{member[:200]}…"
    assert f"{archive} was not unpacked, because its member {shown!r} {why}" in str(raised.value)
    assert advice in str(raised.value)
    assert "\n" not in str(raised.value)
    assert left_in(tmp_path) == [archive.name]


@pytest.mark.parametrize(("member", "why"), TAR)
@pytest.mark.parametrize("compression", ["", "gz"])
def test_a_hostile_tar(tmp_path, member, why, compression):
    files = [tar_member(name, data) for name, data in TREE.items()]
    archive = tar(tmp_path / "a.tar", *files, member, tar_member("after", b""), compression=compression)
    refused(tmp_path, archive, member[0].name, why, OTHER_DISK if "this disk" in why else TRUST)


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize(("member", "why"), ZIP)
def test_a_hostile_zip(tmp_path, member, why):
    files = [zip_member(name, data) for name, data in TREE.items()]
    archive = zipped(tmp_path / "a.zip", *files, member, zip_member("after", b""))
    refused(tmp_path, archive, member[0].orig_filename, why, OTHER_DISK if "this disk" in why else TRUST)


def test_links_become_the_files_they_point_to(tmp_path):
    """No link is left that anything could follow, and nothing is written through a link."""
    archive = tar(
        tmp_path / "a.tgz",
        tar_member("one/link.jpg", kind=tarfile.SYMTYPE, target="../two/file.jpg"),
        tar_member("two/file.jpg", b"pixels"),
        tar_member("hard.jpg", kind=tarfile.LNKTYPE, target="two/file.jpg"),
    )
    assert extract(tmp_path, archive)["a.tgz"]["files"] == 3
    assert content(tmp_path / "images") == dict.fromkeys(["one/link.jpg", "two/file.jpg", "hard.jpg"], b"pixels")
    through = tar(
        tmp_path / "b.tgz",
        tar_member("here", kind=tarfile.SYMTYPE, target="two"),
        tar_member("two/file.jpg", b"pixels"),
        tar_member("here/file.jpg", b"overwritten"),
    )
    with pytest.raises(UserError, match="its member 'here' links to 'two', which is not a file of the archive"):
        extract(tmp_path, through)
    linked = zipped(
        tmp_path / "c.zip", zip_member("a/link", b"../file", stat.S_IFLNK | 0o777), zip_member("file", b"pixels")
    )
    extract(tmp_path, linked)
    assert content(tmp_path / "images") == {"a/link": b"pixels", "file": b"pixels"}


def test_an_encrypted_zip(tmp_path):
    archive = zipped(tmp_path / "img_highres.zip", zip_member("img/1.jpg", b"secret"))
    data = bytearray(archive.read_bytes())
    data[data.index(b"PK\3\4") + 6] |= 1
    data[data.index(b"PK\1\2") + 8] |= 1
    archive.write_bytes(data)
    refused(tmp_path, archive, "img/1.jpg", "is encrypted", "get an archive without a password")


MUCH = bytes(archives.LEAST + 1)


@pytest.mark.parametrize("kind", ["zip", "tgz", "tar.bz2"])
def test_a_bomb_is_refused_by_default(tmp_path, kind):
    path = tmp_path / f"a.{kind}"
    if kind == "zip":
        archive = zipped(path, zip_member("good.txt", b"x"), zip_member("zeros", MUCH))
    else:
        files = tar_member("good.txt", b"x"), tar_member("zeros", MUCH)
        archive = tar(path, *files, compression={"tgz": "gz", "tar.bz2": "bz2"}[kind])
    refused(
        tmp_path, archive, "zeros", f"would exceed the limit of {archives.LEAST:,} unpacked bytes", "`unpacked_size`"
    )


@pytest.mark.parametrize("make", [tar, zipped])
def test_the_limit_of_a_dataset_counts_all_members(tmp_path, make):
    member = tar_member if make is tar else zip_member
    archive = make(tmp_path / "a", *[member(f"{number}", bytes(100)) for number in range(5)])
    extract(tmp_path, archive, unpacked_size=500)
    (tmp_path / "images" / "0").unlink()
    with pytest.raises(UserError, match=r"its member '4' would exceed the limit of 499 unpacked bytes \(\d+ packed\)"):
        extract(tmp_path, archive, unpacked_size=499)


def test_a_sparse_file_counts_with_its_declared_size(tmp_path):
    member, _ = tar_member("sparse")
    member.pax_headers = {"GNU.sparse.map": "0,1", "GNU.sparse.size": str(10**15), "GNU.sparse.name": "sparse"}
    archive = tar(tmp_path / "a.tar", (member, b""), compression="")
    refused(tmp_path, archive, "sparse", "would exceed the limit of", "`unpacked_size`")


@pytest.mark.parametrize("make", [tar, zipped])
def test_the_number_of_members_is_limited(tmp_path, make, monkeypatch):
    monkeypatch.setattr(archives, "MOST_MEMBERS", 3)
    member = tar_member if make is tar else zip_member
    archive = make(tmp_path / "a", *[member(f"{number}") for number in range(4)])
    with pytest.raises(UserError, match="a was not unpacked, because it has more than 3 members: delete the archive"):
        extract(tmp_path, archive)
    assert left_in(tmp_path) == ["a"]
    monkeypatch.setattr(archives, "MOST_MEMBERS", 4)
    extract(tmp_path, archive)


def damaged(tmp_path, archive):
    with pytest.raises(UserError) as raised:
        extract(tmp_path, archive)
    assert f"{archive} is damaged or not a tar or zip archive (" in str(raised.value)
    assert "delete it and run again, or get it from another source." in str(raised.value)
    assert left_in(tmp_path) == [archive.name]
    return str(raised.value)


@pytest.mark.parametrize("name", ["a.tar", "a.tgz", "a.tar.bz2", "a.tar.xz", "a.zip"])
@pytest.mark.parametrize("fraction", [0.001, 0.3, 0.6, 0.99])
def test_a_truncated_archive(tmp_path, name, fraction):
    if name == "a.tar" and fraction == 0.99:
        fraction = 0.4  # its last tenth is padding
    archive = good(tmp_path / name)
    whole = archive.read_bytes()
    archive.write_bytes(whole[: int(fraction * len(whole))])
    damaged(tmp_path, archive)


def test_a_tar_that_ends_between_two_members(tmp_path):
    """tarfile takes this, like a broken header, for the end of the archive."""
    archive = tar(tmp_path / "a.tar", tar_member("1", bytes(512)), tar_member("2", b"2"), compression="")
    whole = archive.read_bytes()
    archive.write_bytes(whole[:1024])
    assert "it has no end mark" in damaged(tmp_path, archive)
    archive.write_bytes(whole[:1024] + b"?" + whole[1025:])
    assert "it has no end mark" in damaged(tmp_path, archive)


@pytest.mark.parametrize("name", ["a.tgz", "a.tar.bz2", "a.tar.xz", "a.zip"])
def test_a_flipped_byte(tmp_path, name):
    archive = good(tmp_path / name)
    data = bytearray(archive.read_bytes())
    data[len(data) // 2] ^= 0xFF
    archive.write_bytes(data)
    damaged(tmp_path, archive)


def test_a_zip_member_longer_than_declared(tmp_path):
    archive = zipped(tmp_path / "a.zip", zip_member("file", bytes(100_000)))
    data = bytearray(archive.read_bytes())
    for start in (data.index(b"PK\3\4") + 22, data.index(b"PK\1\2") + 24):
        data[start : start + 4] = (10).to_bytes(4, "little")
    archive.write_bytes(data)
    damaged(tmp_path, archive)


def test_a_header_that_would_fill_the_memory(tmp_path):
    size = tars.LARGEST_HEADER + 1
    long_name = tarfile.TarInfo("././@LongLink")
    long_name.type, long_name.size = tarfile.GNUTYPE_LONGNAME, size
    archive = tmp_path / "a.tgz"
    archive.write_bytes(gzip.compress(long_name.tobuf(tarfile.GNU_FORMAT) + bytes(size + 2048), 1))
    assert "more than 1,048,576 bytes of headers for one member" in damaged(tmp_path, archive)


def refusal(tmp_path, archive):
    with pytest.raises(UserError) as raised:
        extract(tmp_path, archive)
    return str(raised.value)


def hard_links(number, data):
    return [tar_member("file", data), *[tar_member(f"{n}", b"", tarfile.LNKTYPE, "file") for n in range(number)]]


def test_links_count_as_the_files_they_stand_for(tmp_path):
    """A disk without hard links, or with too many names for a file, stores copies."""
    archive = tar(tmp_path / "a.tgz", *hard_links(9, bytes(100)))
    about = extract(tmp_path, archive, unpacked_size=1000)
    assert about["a.tgz"]["bytes"] == 1000
    shutil.rmtree(tmp_path / "images")
    with pytest.raises(UserError, match=r"its member '8' would exceed the limit of 999 unpacked bytes"):
        extract(tmp_path, archive, unpacked_size=999)
    link = zip_member("link", b"file", stat.S_IFLNK | 0o777)
    archive = zipped(tmp_path / "a.zip", zip_member("file", bytes(100)), link)
    with pytest.raises(UserError, match=r"its member 'link' would exceed the limit of 199 unpacked bytes"):
        extract(tmp_path, archive, unpacked_size=199)
    assert left_in(tmp_path) == ["a.tgz", "a.zip"]


def extended_header(data, kind=tarfile.XHDTYPE):
    """An extended header with these bytes, whatever they mean, and a file after it."""
    header = tarfile.TarInfo("././@PaxHeader")
    header.type, header.size = kind, len(data)
    padded = data + bytes(-len(data) % 512)
    return header.tobuf(tarfile.USTAR_FORMAT) + padded + tarfile.TarInfo("file").tobuf() + bytes(1024)


@pytest.mark.parametrize("pack", [bytes, gzip.compress, bz2.compress, lzma.compress])
@pytest.mark.parametrize("kind", [tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE])
@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"1" * 900_000, "a header with a number of more than 255 digits"),
        (b"300020 path=" + b"1" * 300_000 + b"\n", "a header with a number of more than 255 digits"),
        (b"2 " * 200_000 + b"=", "a malformed extended header"),
        (b"9 path=x\n9 path=", "a malformed extended header"),
        (b"x" * 1_100_000, "more than 1,048,576 bytes of headers for one member"),
    ],
)
def test_a_header_that_takes_tarfile_for_ever(tmp_path, data, why, kind, pack):
    (tmp_path / "a.tar").write_bytes(pack(extended_header(data, kind)))
    assert why in damaged(tmp_path, tmp_path / "a.tar")


def test_endless_headers(tmp_path, monkeypatch):
    """Headers are limited twice: for each member, and for all members together."""
    chain = tarfile.TarInfo("x")
    chain.type = tarfile.GNUTYPE_SPARSE
    block = bytearray(chain.tobuf(tarfile.GNU_FORMAT))
    block[482] = 1  # more blocks follow
    block[148:156] = b"%06o\0 " % (sum(block[:148]) + sum(block[156:]) + 256)
    more = bytearray(512)
    more[504] = 1
    (tmp_path / "a.tgz").write_bytes(gzip.compress(bytes(block) + bytes(more) * 4000, 1))
    assert "more than 1,048,576 bytes of headers for one member" in damaged(tmp_path, tmp_path / "a.tgz")
    comment = b"900000 comment=" + b"x" * (900_000 - 16) + b"\n"
    header = extended_header(comment)[: 512 + len(comment) + -len(comment) % 512]
    members = b"".join(header + tarfile.TarInfo(f"{number}").tobuf() for number in range(3))
    (tmp_path / "a.tgz").write_bytes(gzip.compress(members + bytes(1024), 1))
    monkeypatch.setattr(archives, "LEAST", 1 << 20)
    monkeypatch.setattr(tars, "MARGIN", 1 << 20)
    assert "it is much longer than its members" in damaged(tmp_path, tmp_path / "a.tgz")


@pytest.mark.parametrize("kind", [tarfile.XHDTYPE, tarfile.REGTYPE, tarfile.GNUTYPE_LONGNAME])
def test_a_negative_size(tmp_path, kind):
    """tarfile would read the rest of the archive into memory, or loop for ever (CVE-2025-8194)."""
    block = bytearray(tarfile.TarInfo("x").tobuf(tarfile.GNU_FORMAT))
    block[124:136] = b"\xff" * 10 + b"\xfe\x00"  # -512
    block[156:157] = kind
    block[148:156] = b"%06o\0 " % (sum(block[:148]) + sum(block[156:]) + 256)
    (tmp_path / "a.tar").write_bytes(bytes(block) + tar_member("file")[0].tobuf() + bytes(1024))
    assert re.search("a header |no end mark|its header says -512", damaged(tmp_path, tmp_path / "a.tar"))


def test_the_length_of_all_names_is_limited(tmp_path, monkeypatch):
    monkeypatch.setattr(archives, "LONGEST_NAMES", 100)
    archive = tar(tmp_path / "a.tgz", tar_member("x" * 60), tar_member("y", b"", tarfile.LNKTYPE, "x" * 60))
    with pytest.raises(UserError, match=r"because its members' names have more than 100 characters together: "):
        extract(tmp_path, archive)
    assert left_in(tmp_path) == ["a.tgz"]


def test_a_long_name_in_an_extended_header(tmp_path):
    name = "set/" + "long" * 40 + "/" + "1" * 200 + ".jpg"
    extract(tmp_path, tar(tmp_path / "a.tgz", tar_member(name, b"pixels")))
    assert content(tmp_path / "images") == {name: b"pixels"}


@pytest.mark.parametrize("method", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_a_zip_member_is_decompressed_in_pieces(tmp_path, method):
    """zipfile would decompress such a small member to 32 MiB at once, whatever the directory says."""
    with zipfile.ZipFile(tmp_path / "a.zip", "w", method) as made:
        made.writestr("zeros", bytes(32 << 20))
    data = bytearray((tmp_path / "a.zip").read_bytes())
    place = data.index(b"PK\1\2") + 24
    data[place : place + 4] = (100).to_bytes(4, "little")
    (tmp_path / "a.zip").write_bytes(data)
    tracemalloc.start()
    try:
        damaged(tmp_path, tmp_path / "a.zip")
        assert tracemalloc.get_traced_memory()[1] < 16 << 20
    finally:
        tracemalloc.stop()


def test_dictionaries_that_would_fill_the_memory(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.zip", "w", zipfile.ZIP_LZMA) as made:
        made.writestr("file", b"x" * 100)
    data = bytearray((tmp_path / "a.zip").read_bytes())
    place = data.index(b"\5\0\x5d") + 3
    data[place : place + 4] = (3 << 29).to_bytes(4, "little")
    (tmp_path / "a.zip").write_bytes(data)
    with pytest.raises(
        UserError, match="an LZMA member needs 1,610,612,736 bytes of memory, but at most 134,217,728 are"
    ):
        extract(tmp_path, tmp_path / "a.zip")
    data = bytearray(lzma.compress(good(tmp_path / "a.tar").read_bytes(), filters=[{"id": lzma.FILTER_LZMA2}]))
    data[16] = 39  # the dictionary has 3 GiB
    data[20:24] = zlib.crc32(data[12:20]).to_bytes(4, "little")
    (tmp_path / "a.tar").write_bytes(data)
    assert "Memory usage limit exceeded" in refusal(tmp_path, tmp_path / "a.tar")


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_every_method_of_zip(tmp_path, method):
    with zipfile.ZipFile(tmp_path / "a.zip", "w", method) as made:
        for name, data in TREE.items():
            made.writestr(name, data)
    extract(tmp_path, tmp_path / "a.zip")
    assert content(tmp_path / "images") == TREE


def test_an_unknown_method_of_zip(tmp_path):
    archive = zipped(tmp_path / "a.zip", zip_member("file", b"x"))
    data = bytearray(archive.read_bytes())
    data[data.index(b"PK\3\4") + 8] = data[data.index(b"PK\1\2") + 10] = 9
    archive.write_bytes(data)
    advice = "pack it again as one of: stored, deflated, bzip2, LZMA"
    refused(tmp_path, archive, "file", "is compressed by method 9", advice)


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_a_zip_member_shorter_than_declared(tmp_path, method):
    archive = tmp_path / "a.zip"
    with zipfile.ZipFile(archive, "w", method) as made:
        made.writestr("file", bytes(100))
    data = bytearray(archive.read_bytes())
    for start in (data.index(b"PK\3\4") + 22, data.index(b"PK\1\2") + 24):
        data[start : start + 4] = (200).to_bytes(4, "little")
    archive.write_bytes(data)
    damaged(tmp_path, archive)


def test_several_compressed_streams_in_one_file(tmp_path):
    whole = good(tmp_path / "a.tar").read_bytes()
    for name, pack in (("gz", gzip.compress), ("bz2", bz2.compress), ("xz", lzma.compress)):
        parts = [pack(whole[:700]), pack(b""), pack(whole[700:])]
        (tmp_path / name).write_bytes((bytes(8) if name == "xz" else b"").join(parts))
        extract(tmp_path, tmp_path / name)
        assert content(tmp_path / "images") == TREE
        shutil.rmtree(tmp_path / "images")
        (tmp_path / name).write_bytes(b"".join(parts)[:-10])
        with pytest.raises(UserError, match="is damaged"):
            extract(tmp_path, tmp_path / name)


def test_two_tars_in_one_file(tmp_path):
    one, two = (tar(tmp_path / name, tar_member(name, name.encode()), compression="") for name in "ab")
    both, zipped_both = tmp_path / "both.tar", tmp_path / "both.tgz"
    both.write_bytes(one.read_bytes() + two.read_bytes())
    zipped_both.write_bytes(gzip.compress(one.read_bytes()) + gzip.compress(two.read_bytes()))
    for archive in (both, zipped_both):
        with pytest.raises(
            UserError, match="another archive begins after its end mark: unpack the two archives separately"
        ):
            extract(tmp_path, archive)
    for pack in (gzip.compress, bz2.compress, lzma.compress, lambda data: zipped(tmp_path / "b.zip").read_bytes()):
        both.write_bytes(one.read_bytes() + bytes(700) + pack(two.read_bytes()))
        with pytest.raises(UserError, match="another archive begins after its end mark"):
            extract(tmp_path, both)
        if pack != gzip.compress:
            both.write_bytes(bz2.compress(one.read_bytes()) + pack(two.read_bytes()))
            with pytest.raises(UserError, match=r"is damaged|another archive"):
                extract(tmp_path, both)
    both.write_bytes(one.read_bytes() + b"noise" * 1000)
    extract(tmp_path, both)
    assert content(tmp_path / "images") == {"a": b"a"}


def test_two_zips_in_one_file(tmp_path):
    """zipfile would find only the second one."""
    one, two = (zipped(tmp_path / name, zip_member(name, name.encode())).read_bytes() for name in "ab")
    (tmp_path / "both.zip").write_bytes(one + two)
    with pytest.raises(UserError, match=r"does not begin with its first member; is it two archives in one file\?"):
        extract(tmp_path, tmp_path / "both.zip")
    (tmp_path / "both.zip").write_bytes(b"PK00" + one)
    extract(tmp_path, tmp_path / "both.zip")
    assert content(tmp_path / "images") == {"a": b"a"}


def test_a_size_for_all_members(tmp_path):
    """A global header may contradict the header of every member."""
    (tmp_path / "a.tar").write_bytes(extended_header(b"13 size=-512\n", tarfile.XGLTYPE))
    with pytest.raises(UserError, match=r"is damaged .*'file' has 0 bytes, but its header says -512"):
        extract(tmp_path, tmp_path / "a.tar")


@pytest.mark.parametrize("data", [bytes(1024), bytes(10240), gzip.compress(bytes(10240)), b"PK\5\6" + bytes(18)])
def test_an_archive_without_files(tmp_path, data):
    (tmp_path / "a.tar").write_bytes(data)
    with pytest.raises(UserError, match=r"a\.tar contains no files: delete it and get it from another source"):
        extract(tmp_path, tmp_path / "a.tar")
    assert left_in(tmp_path) == ["a.tar"]


@pytest.mark.parametrize("name", ["PK\3\4", "PK", "BZh9", "\x1f\x8b", "\xfd7zXZ"])
def test_a_tar_whose_first_name_looks_like_another_format(tmp_path, name):
    with tarfile.open(tmp_path / "a.tar", "w", format=tarfile.USTAR_FORMAT, encoding="latin-1") as made:
        made.addfile(tarfile.TarInfo(f"{name}.jpg"))
    if name.isascii():
        extract(tmp_path, tmp_path / "a.tar")
        assert content(tmp_path / "images") == {f"{name}.jpg": b""}
    else:
        with pytest.raises(UserError, match="has a name that is not UTF-8"):
            extract(tmp_path, tmp_path / "a.tar")


def test_deep_trees_and_names_that_are_not_utf8(tmp_path):
    deep = "/".join("a" * 65) + "/file"
    for archive in (tar(tmp_path / "a.tgz", tar_member(deep)), zipped(tmp_path / "a.zip", zip_member(deep))):
        with pytest.raises(UserError, match=r"its member 'a/a/.*' is more than 64 folders deep"):
            extract(tmp_path, archive)
    archive = tar(tmp_path / "b.tgz", tar_member("caf\udce9.jpg"))
    with pytest.raises(UserError, match=r"its member 'caf\\udce9\.jpg' has a name that is not UTF-8") as raised:
        extract(tmp_path, archive)
    str(raised.value).encode()
    assert left_in(tmp_path) == ["a.tgz", "a.zip", "b.tgz"]
    extract(tmp_path, tar(tmp_path / "c.tgz", tar_member("/".join("a" * 64) + "/file")))


def test_the_number_of_members_is_shown(tmp_path, caplog, monkeypatch):
    monkeypatch.setattr(progress, "LINES_EVERY_SECONDS", 0)
    monkeypatch.setattr(archives, "SHOW_EVERY", 10)
    caplog.set_level("INFO", "recheck")
    extract(tmp_path, tar(tmp_path / "a.tgz", *[tar_member(f"{number}") for number in range(40)]))
    for number in (10, 20, 30, 40):
        assert f"{number} members" in caplog.text


@pytest.mark.parametrize(
    "data", [b"", b"hello", b"<html>", b"PK\3\4", gzip.compress(b"x", mtime=0), bz2.compress(b""), b"\x1f\x8b"]
)
def test_a_file_that_is_not_an_archive(tmp_path, data):
    (tmp_path / "a.tgz").write_bytes(data)
    damaged(tmp_path, tmp_path / "a.tgz")


def test_an_xz_file_without_an_archive(tmp_path):
    (tmp_path / "a.xz").write_bytes(lzma.compress(b"no tar"))
    damaged(tmp_path, tmp_path / "a.xz")


CHILD = """
import json, sys
from pathlib import Path
from recheck.data.archives import extract
folder = Path(sys.argv[1])
extract([{"path": "a.tar", "extract": "."}], folder, {"a.tar": {"sha256": "x"}}, folder / "images")
"""


def child(folder, **options):
    return subprocess.Popen(
        [sys.executable, "-c", CHILD, str(folder)],
        env={**os.environ, "PYTHONPATH": str(SCRIPTS)},
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )


def test_a_killed_extraction_starts_over_and_ends_right(tmp_path):
    names = [f"{number // 100}/{number}.jpg" for number in range(1_500)]
    tar(tmp_path / "a.tar", *[tar_member(name, name.encode()) for name in names], compression="")
    files, verified = [{"path": "a.tar", "extract": "."}], {"a.tar": {"sha256": "x"}}
    work = lambda: archives.extract(files, tmp_path, verified, tmp_path / "images")  # noqa: E731
    assert crash(work, len(names) // 2) == KILLED
    assert list(tmp_path.glob(".images.*/images/5"))
    assert not (tmp_path / "images").exists()
    assert list(tmp_path.glob(".images.*"))
    work()
    assert content(tmp_path / "images") == {name: name.encode() for name in names}
    assert left_in(tmp_path) == ["a.tar", "images"]


def test_a_full_disk(tmp_path):
    """A limit on file sizes gives the same error as a full disk, on every machine."""
    tar(tmp_path / "a.tar", tar_member("1", b"1"), tar_member("2", bytes(300_000)), compression="")

    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))

    process = child(tmp_path, preexec_fn=limit)
    assert (
        f"No space left while writing {tmp_path}/images: free some space"
        in process.communicate(timeout=HANG_SECONDS)[1]
    )
    assert left_in(tmp_path) == ["a.tar"]


def test_too_little_space_is_reported_before_unpacking(tmp_path):
    archive = tar(tmp_path / "a.tar", tar_member("1", b"1"), compression="")
    os.truncate(archive, shutil.disk_usage(tmp_path).total)  # a sparse file, which takes no space
    with pytest.raises(UserError, match=r"Unpacking a\.tar needs .* MB in .*, but only .* MB are free: free"):
        extract(tmp_path, archive)
    assert left_in(tmp_path) == ["a.tar"]

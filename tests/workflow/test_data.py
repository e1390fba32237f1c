"""`snakemake data`: from a server and dropped files to indices, on the real command line."""

import hashlib
import json
import os
import re
import tarfile
import zipfile

from support.datasets import miniatures
from support.project import Project
from support.services.servers import Answer, serving

ASKED = ("data", "--config", "datasets=[mini,by_hand]")


def test_datasets_are_fetched_verified_unpacked_and_indexed(tmp_path):
    project = Project.create(tmp_path / "project", classes=3, per_class=2)
    with tarfile.open(tmp_path / "mini.tgz", "w:gz") as made:
        made.add(project.path("glyphs"), "letters")
    with zipfile.ZipFile(tmp_path / "img.zip", "w") as made:
        for path in sorted(project.path("glyphs").rglob("*.png")):
            made.write(path, path.relative_to(project.path("glyphs")))
    data = (tmp_path / "mini.tgz").read_bytes()
    with serving() as server:
        good = server.give("/mini.tgz", Answer(data, headers={"ETag": '"1"'}))
        project.write(
            "config/datasets/mini.yaml",
            f"""
            description: Letters in an archive, and two mirrors of which one is gone.
            parser: folder
            root: resources/datasets/mini/images/letters
            files:
              - path: mini.tgz
                size: {len(data)}
                md5: {hashlib.md5(data).hexdigest()}
                extract: .
                from: [{{url: {server.url}/gone.tgz}}, {{url: {good}}}]
            """,
        )
        project.write(
            "config/datasets/by_hand.yaml",
            """
            description: Letters behind a form.
            parser: folder
            files:
              - path: img.zip
                unverified: true
                extract: .
                from: [{manual: "fill in the form at https://example.org and get img.zip, not img_highres.zip"}]
            """,
        )
        begun = project.path("resources/datasets/mini/downloads/mini.tgz.part")
        begun.parent.mkdir(parents=True)
        begun.write_bytes(data[:100])  # left by a killed job

        # one dataset needs a manual download, the other is finished anyway
        output = project.fail("--cores", "2", "--keep-going", *ASKED)
        assert (
            "dataset 'by_hand': img.zip must be obtained by hand: fill in the form at https://example.org and get "
            "img.zip, not img_highres.zip. Put it into resources/drop/by_hand and run the same command again."
        ) in output
        assert "Traceback" not in output
        index = project.read("resources/datasets/mini/images.csv")
        assert len(index.splitlines()) == 1 + 3 * 2
        assert server.asked_for("/mini.tgz") == ["bytes=100-"]
        result = json.loads(project.read("resources/datasets/mini/verified.json"))["mini.tgz"]
        assert result["sha256"] == hashlib.sha256(data).hexdigest()
        assert json.loads(project.read("resources/datasets/mini/extracted.json"))["mini.tgz"]["files"] == 6

        dropped = project.path("resources/drop/by_hand/img.zip")
        (tmp_path / "img.zip").rename(dropped)
        project.succeed("--cores", "2", *ASKED)
        assert project.read("resources/datasets/by_hand/images.csv") == index
        assert json.loads(project.read("resources/datasets/by_hand/verified.json"))["img.zip"]["unverified"]
        assert dropped.is_file()
        assert len(server.asked) == 2, "finished files are not fetched again"
        assert project.planned(*ASKED) == {}


def test_a_dropped_file_replaces_the_copy_that_differs(tmp_path):
    """In-Shop: no checksum tells the right list from a wrong one."""
    project = Project.create(tmp_path / "project", classes=2, per_class=1)
    tree = miniatures.make_inshop(tmp_path / "tree")
    drop, copy = (project.path(f"resources/{place}/list_eval_partition.txt") for place in DROPPED)
    drop.parent.mkdir(parents=True)
    for archive in miniatures.make_archives("inshop", tree, tmp_path / "archives"):
        archive.rename(drop.with_name(archive.name))
    description = project.read("config/datasets/inshop.yaml")
    project.write("config/datasets/inshop.yaml", re.sub(r"expected:.*?(?=files:)", "", description, flags=re.S))
    right = drop.read_bytes()
    drop.write_bytes(right.replace(b"20", b"21", 1))
    asked = ("data", "--config", "datasets=[inshop]")
    assert "20 rows, but its first line says 21" in project.fail("--cores", "1", *asked)

    copy.unlink()
    assert set(project.planned(*asked)) >= {"fetch", "index"}, "index declares what it reads"
    replace(drop, right.replace(b"20", b"22", 1))
    assert "20 rows, but its first line says 22" in project.fail("--cores", "1", *asked)
    replace(drop, right)
    project.succeed("--cores", "1", *asked)
    assert copy.read_bytes() == right
    assert project.planned(*asked) == {}

    replace(drop, right + b"\n")
    assert set(project.planned(*asked)) >= {"fetch", "verify", "index"}, "also after a success"
    drop.unlink()
    assert project.planned(*asked) == {}, "the copy is enough"


def replace(path, content):
    """Another file under the same name, as old as the archive it came from."""
    path.unlink()
    path.write_bytes(content)
    os.utime(path, (0, 0))


DROPPED = ("drop/inshop", "datasets/inshop/downloads")

"""How images are stored changes no plan and no result: encoded packs, and copies on a node's disk."""

import json
import os


def test_an_encoded_pack_on_another_disk_gives_the_same_bits(project):
    run, packed = "results/letters/glyphs/triplet/seed0/fold0", "resources/datasets/glyphs/packed"
    files = [f"{run}/model.safetensors", f"{run}/embeddings.safetensors"]
    before = [project.path(name).read_bytes() for name in files]
    plain = json.loads(project.read(f"{packed}/original/pack.json"))
    options = ("--config", "plain_pack_gb=0", "reuse=false", "pathvars={scratch: disk}")
    assert project.planned(*options) == {}, "a pack that exists stays as it is"
    project.succeed("--cores", "2", files[1], "--forcerun", "pack", *options)
    encoded = json.loads(project.read(f"{packed}/original/pack.json"))
    assert encoded["encoding"] == "source" and encoded["bytes"] != plain["bytes"]
    assert [project.path(name).read_bytes() for name in files] == before
    record = json.loads(project.read(f"{run}/run.json"))
    assert record["data"]["pixels"] == encoded["sha256"] == plain["sha256"]
    home = project.path(f"disk/recheck-packs-{os.getuid()}")
    log = project.read("logs/letters/glyphs/triplet/seed0/fold0/train.log")
    assert f"Reading the copy of {packed}/original in disk/{home.name}/" in log
    assert [entry.name for entry in home.iterdir()] == ["lock"], "the last job has removed the copy"

"""Released checkpoints: found at any depth, one pair per fold, and converted without changing their embeddings."""

import copy
import io
import json
import zipfile

import pytest
import torch

from recheck.data import hosts
from recheck.data import released as released_files
from recheck.data.released import collect, pairs
from recheck.errors import UserError
from recheck.models.bn_inception import BNInception
from recheck.models.embedding import EmbeddingModel
from recheck.models.released import CONVERTERS, convert, convert_mlrc
from recheck.names import LAYOUTS
from recheck.study import facts
from recheck.study.published import load_published, scoped
from support.datasets import original_layouts
from support.project import ROOT
from support.project.studies import own_study, shipped
from support.services.servers import Answer, patient

pytestmark = pytest.mark.slow

QUICK = patient(waits=(0.01,), longest=0.05)
SPEC = {"backbone": {"name": "bn_inception", "weights": "imagenet"}, "head": {"class": "Linear", "dim": 128}}


def names(fold, epoch=14, inside="", folds=4):
    return [
        f"{inside}Test50_50_Partitions{folds}_{fold}/saved_models/{module}_best{epoch}.pth"
        for module in ("trunk", "embedder")
    ]


ALL = [name for fold in range(4) for name in names(fold)]


@pytest.mark.parametrize("inside", ["", "CUB200 Contrastive/", "a/b/c/", "Test50_50_Partitions4_3/"])
def test_a_pair_is_found_for_every_fold_at_any_depth(inside):
    beside = [name.replace("trunk_best14", "trunk_20") for name in ALL] + [
        "saved_csvs/log.csv",
        f"{inside}Test50_50_Partitions4_0/saved_models/trunk_optimizer_best14.pth",
        f"{inside}Test50_50_Partitions4_0/saved_models/._trunk_best14.pth",
        f"{inside}Test50_50_Partitions4_0/saved_models/trunk_best.pth",
        f"{inside}Test50_50_Partitions10_1/saved_models/trunk_best3.pth",
    ]
    by_fold = pairs([inside + name for name in ALL] + beside, 4)
    assert list(by_fold) == [0, 1, 2, 3]
    for fold, pair in by_fold.items():
        assert pair.epoch == 14
        assert [pair.files[module] for module in ("trunk", "embedder")] == names(fold, inside=inside)


def test_the_highest_complete_epoch_is_the_best():
    by_fold = pairs([*names(0, 9), *names(0, 14), names(0, 100)[0]], 4)
    assert by_fold[0].epoch == 14
    assert sorted(by_fold[0].files.values()) == sorted(names(0, 14))


def test_two_experiments_are_not_mixed():
    with pytest.raises(
        UserError, match=r"Several folders have checkpoints of fold 0: a/Test50_50_Part.*, b/Test50_50_.*\. Keep only"
    ):
        pairs([*names(0, inside="a/"), *names(0, inside="b/")], 4)
    halves = [names(0, inside="a/")[0], names(0, inside="b/")[1]]
    assert pairs(halves, 4) == {}, "a trunk and an embedder of different experiments do not form a pair"


def drop_files(folder, paths):
    for path in paths:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(path.encode())


def test_dropped_folders_and_archives_are_used(tmp_path):
    drop, target = tmp_path / "drop", tmp_path / "to"
    drop_files(drop, [*names(0), *names(1, inside="deep/er/"), "readme.txt"])
    for number, fold in enumerate((2, 3)):
        with zipfile.ZipFile(drop / f"Contrastive-20240101T0000Z-00{number}.zip", "w") as archive:
            archive.writestr("Contrastive/", "")
            for name in names(fold, inside="Contrastive/"):
                archive.writestr(name, f"zipped {name}")
            archive.writestr("../../outside.pth", "x")
    record = collect({"layout": "mlrc"}, 4, target, drop)
    assert record["layout"] == "mlrc" and len(record["folds"]) == 4
    for fold, pair in enumerate(record["folds"]):
        assert pair["epoch"] == 14
        for module in ("trunk", "embedder"):
            assert pair[module]["file"] == f"fold{fold}/dropped/{module}_best14.pth"
            content = (target / pair[module]["file"]).read_text()
            assert content.removeprefix("zipped ") in (pair[module]["found"], names(fold)[module == "embedder"])
            assert len(pair[module]["sha256"]) == 64
    assert (drop / names(0)[0]).exists(), "a user's file is never moved"
    assert sum(path.is_file() for path in tmp_path.rglob("*.pth")) == 4 + 8


def test_missing_folds_are_named_with_what_was_found(tmp_path):
    drop = tmp_path / "drop"
    drop_files(drop, [*names(0), *names(2), names(3)[0], "Test50_50_Partitions4_1/saved_models/trunk_14.pth"])
    with pytest.raises(UserError) as caught:
        collect({"layout": "mlrc"}, 4, tmp_path / "to", drop)
    message = str(caught.value)
    assert (
        "of Test50_50_Partitions4_1, Test50_50_Partitions4_3 (found: " in message and "): put these folders" in message
    )
    assert f"into {drop} and run the same command again" in message
    assert "found: " in message and "Test50_50_Partitions4_1/saved_models/trunk_14.pth" in message
    assert "\n" not in message
    with pytest.raises(UserError, match="found: nothing"):
        collect({"layout": "mlrc"}, 4, tmp_path / "to", tmp_path / "empty")
    assert (tmp_path / "empty").is_dir(), "the drop folder must exist"


@pytest.mark.parametrize("cut", [10, -30])
def test_a_truncated_archive_is_named(tmp_path, cut):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name in ALL:
            archive.writestr(name, "x" * 1000)
    (tmp_path / "drop").mkdir()
    (tmp_path / "drop" / "all.zip").write_bytes(buffer.getvalue()[:cut])
    with pytest.raises(UserError, match=r"drop/all\.zip is not a complete zip archive"):
        collect({"layout": "mlrc"}, 4, tmp_path / "to", tmp_path / "drop")


def test_a_bomb_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("recheck.data.released.LARGEST", 1000)
    with zipfile.ZipFile(tmp_path / "all.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for name in names(0, folds=1):
            archive.writestr(name, bytes(2000))
    with pytest.raises(UserError, match=r"trunk_best14\.pth' has 2,000 bytes, expected a checkpoint of at most 1,000"):
        collect({"layout": "mlrc"}, 1, tmp_path / "to", tmp_path)


def zipped(path, names, content="x"):
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as archive:
        for name in names:
            archive.writestr(name, f"{content} {name}")


def test_the_suffix_of_an_archive_may_be_in_capitals(tmp_path):
    zipped(tmp_path / "drop/A.ZIP", names(0, folds=1))
    record = collect({"layout": "mlrc"}, 1, tmp_path / "to", tmp_path / "drop")
    assert (tmp_path / "to" / record["folds"][0]["trunk"]["file"]).read_text() == f"x {names(0, folds=1)[0]}"


def test_two_archives_with_the_same_files_are_not_mixed(tmp_path):
    drop = tmp_path / "drop"
    zipped(drop / "a.zip", [*names(0, folds=1), "log.csv"], "old")
    zipped(drop / "b.zip", [names(0, folds=1)[1], "log.csv"], "new")
    with pytest.raises(
        UserError,
        match=r"embedder_best14\.pth' was found 2 times \(in .*a\.zip and .*b\.zip\), expected once: keep one",
    ):
        collect({"layout": "mlrc"}, 1, tmp_path / "to", drop)
    zipped(drop / "b.zip", ["log.csv"])
    assert len(collect({"layout": "mlrc"}, 1, tmp_path / "to", drop)["folds"]) == 1


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_an_archive_with_two_files_of_one_name_is_refused(tmp_path):
    zipped(tmp_path / "drop/a.zip", [*names(0, folds=1), names(0, folds=1)[0]])
    with pytest.raises(
        UserError, match=r"trunk_best14\.pth' was found 2 times \(in [^ ]*a\.zip\), expected once: keep one of them"
    ):
        collect({"layout": "mlrc"}, 1, tmp_path / "to", tmp_path / "drop")


def test_a_drop_folder_with_a_deep_tree_and_a_link_to_itself(tmp_path):
    (tmp_path / "drop").mkdir()
    (tmp_path / "drop" / "a.zip").symlink_to("a.zip")
    with pytest.raises(UserError, match=r"\(found: nothing\): put these folders"):
        collect({"layout": "mlrc"}, 4, tmp_path / "got", tmp_path / "drop", QUICK)
    (tmp_path / "drop" / "/".join("d" * 70)).mkdir(parents=True)
    with pytest.raises(UserError, match="drop has folders more than 64 levels deep"):
        collect({"layout": "mlrc"}, 4, tmp_path / "got", tmp_path / "drop", QUICK)


def test_numbers_that_no_program_writes_are_not_epochs_or_folds():
    huge = "9" * 5000
    odd = [*names(0, huge), *names(huge), *(name.replace("14", "\u0661\u0664") for name in names(0))]
    assert pairs(odd, 4) == {}
    assert pairs([*odd, *names(0)], 4)[0].epoch == 14


def test_a_hostile_name_does_not_spoil_the_message(tmp_path):
    zipped(tmp_path / "drop/a.zip", ["\x1b[31m" + "x" * 3000 + ".pth"])
    with pytest.raises(UserError) as caught:
        collect({"layout": "mlrc"}, 1, tmp_path / "to", tmp_path / "drop")
    assert str(caught.value).isprintable() and len(str(caught.value)) < 1000


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_an_archive_with_an_unusual_compression_is_refused(tmp_path, method):
    with zipfile.ZipFile(tmp_path / "all.zip", "w", method) as archive:
        for name in names(0, folds=1):
            archive.writestr(name, bytes(2000))
    with pytest.raises(UserError, match=r"trunk_best14\.pth' must be stored or deflated, found another compression"):
        collect({"layout": "mlrc"}, 1, tmp_path / "to", tmp_path)


CONTEXTUAL = {"layout": "contextual", "github_release": "some/body@v1", "file": "CUB_*.pt"}
NAME = "CUB_hybrid_lam_0.4_gamma_0.1_807278.99.pt"


def test_a_single_dropped_checkpoint_may_have_any_name(tmp_path):
    drop_files(tmp_path / "drop", ["deep/theirs.pth", "readme.txt"])
    record = collect(CONTEXTUAL, 1, tmp_path / "to", tmp_path / "drop")
    assert record["folds"][0]["epoch"] is None and record["folds"][0]["model"]["found"] == "deep/theirs.pth"
    drop_files(tmp_path / "drop", [NAME])
    assert collect(CONTEXTUAL, 1, tmp_path / "to", tmp_path / "drop")["folds"][0]["model"]["found"] == NAME
    drop_files(tmp_path / "drop", [f"other/{NAME}"])
    with pytest.raises(UserError, match=r"Several files could be the checkpoint: .*CUB.*, .*CUB.* Keep one of them"):
        collect(CONTEXTUAL, 1, tmp_path / "to", tmp_path / "drop")


def give_release(server, *names):
    assets = [
        {"id": number, "name": name, "size": len(name), "browser_download_url": server.give(f"/{name}", name.encode())}
        for number, name in enumerate(names)
    ]
    server.give("/repos/some/body/releases/tags/v1", json.dumps({"assets": assets}).encode())


def test_the_checkpoint_of_a_dataset_is_fetched_from_a_release(tmp_path, server, monkeypatch):
    monkeypatch.setattr(hosts, "GITHUB", server.url.rstrip("/"))
    give_release(server, NAME, "Cars_hybrid.pt", "CUB_hybrid.txt")
    record = collect(CONTEXTUAL, 1, tmp_path / "to", tmp_path / "drop", QUICK)
    assert (tmp_path / "to" / record["folds"][0]["model"]["file"]).read_text() == NAME
    with pytest.raises(UserError) as caught:
        collect({**CONTEXTUAL, "file": "SOP_*"}, 1, tmp_path / "to", tmp_path / "drop", QUICK)
    assert "Missing the checkpoint, a .pt file (found: CUB_hybrid" in str(caught.value)
    assert "download https://github.com/some/body/releases/tag/v1 in a browser and put this file" in str(caught.value)


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        (Answer(b"", 404), "the server answered 404"),
        (Answer(b"", 403), "the server answered 403"),
        (Answer(b"[]"), "GitHub's list of the release cannot be read"),
        (Answer(b"["), "GitHub's list of the release cannot be read"),
        (Answer(b'{"assets": [{"name": "a"}]}'), "GitHub's list of the release cannot be read"),
        (Answer(b"[" * 100_000), "GitHub's list of the release cannot be read"),
    ],
)
def test_a_release_that_cannot_be_listed(tmp_path, server, monkeypatch, answer, sentence):
    monkeypatch.setattr(hosts, "GITHUB", server.url.rstrip("/"))
    server.give("/repos/some/body/releases/tags/v1", answer)
    with pytest.raises(UserError) as caught:
        collect(CONTEXTUAL, 1, tmp_path / "to", tmp_path / "drop", QUICK)
    assert sentence in str(caught.value) and "\n" not in str(caught.value)


def identifier(word):
    return word.replace("/", "_").replace(".", "-").ljust(30, "x")


def give_folder(drive, paths, top="top-folder-of-the-experiment-0"):
    """Serve a Google Drive folder, as gdown sees it, and its files."""
    tree = {}
    for path in paths:
        node = tree
        *folders, name = path.split("/")
        for folder in folders:
            node = node.setdefault(folder, {})
        node[name] = None

    def give(node, folder_id, where, title):
        links = []
        for name, children in node.items():
            path = f"{where}{name}"
            if children is None:
                links.append(f'<a href="https://drive.google.com/file/d/{identifier(path)}/view">{name}</a>')
                attached = {"Content-Disposition": f'attachment; filename="{name}"', "Content-Type": "x/y"}
                drive.give(f"/uc?id={identifier(path)}", Answer(path.encode(), headers=attached))
            else:
                links.append(f'<a href="https://drive.google.com/drive/folders/{identifier(path)}">{name}</a>')
                give(children, identifier(path), f"{path}/", name)
        page = f"<html><title>{title}</title><body>{''.join(links)}</body></html>"
        drive.give(f"/embeddedfolderview?id={folder_id}", Answer(page.encode(), headers={"Content-Type": "text/html"}))

    give(tree, top, "", "CUB200 Contrastive")
    return {"layout": "mlrc", "gdrive_folder": top}


def test_only_the_best_pairs_are_fetched_from_google_drive_and_only_once(tmp_path, drive):
    beside = ["Test50_50_Partitions4_0/saved_models/trunk_20.pth", "Test50_50_Partitions4_0/saved_csvs/log.csv"]
    released = give_folder(drive, [*ALL, *beside])
    record = collect(released, 4, tmp_path / "to", tmp_path / "drop", QUICK)
    assert record["gdrive_folder"] == released["gdrive_folder"]
    for pair in record["folds"]:
        for module in ("trunk", "embedder"):
            assert (tmp_path / "to" / pair[module]["file"]).read_text() == pair[module]["found"]
    asked = [path for path, _ in drive.asked if path.startswith("/uc")]
    assert sorted(asked) == sorted(f"/uc?id={identifier(name)}" for name in ALL)
    assert collect(released, 4, tmp_path / "to", tmp_path / "drop", QUICK) == record
    assert len([path for path, _ in drive.asked if path.startswith("/uc")]) == len(asked)


def test_dropped_checkpoints_are_not_downloaded(tmp_path, drive):
    half = names(3)[0]
    drop_files(tmp_path / "drop", [half, *(name for fold in (0, 1, 2) for name in names(fold))])
    record = collect(give_folder(drive, ALL), 4, tmp_path / "to", tmp_path / "drop", QUICK)
    assert len([path for path, _ in drive.asked if path.startswith("/uc")]) == 2
    origins = ["dropped" in pair["trunk"]["file"] for pair in record["folds"]]
    assert origins == [True, True, True, False], "halves of different pairs are not mixed"


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        (Answer(b"", 404), "Google Drive refuses to list the folder: it was removed, is not public"),
        (Answer(b"<html></html>"), "Google Drive refuses to list the folder"),
        (Answer(b"", 503), "gdown: Failed to retrieve folder contents"),
        (Answer(b"<html><title>x</title></html>"), "found: nothing"),
    ],
)
def test_a_folder_that_google_drive_refuses_to_list(tmp_path, drive, answer, sentence):
    folder = "top-folder-of-the-experiment-0"
    drive.give(f"/embeddedfolderview?id={folder}", answer)
    with pytest.raises(UserError) as caught:
        collect({"layout": "mlrc", "gdrive_folder": folder}, 4, tmp_path / "to", tmp_path / "drop", QUICK)
    message = str(caught.value)
    assert sentence in message and "\n" not in message
    assert f"download https://drive.google.com/drive/folders/{folder}" in message and f"into {tmp_path}/drop" in message


def test_a_file_that_google_drive_refuses(tmp_path, drive):
    released = give_folder(drive, ALL)
    page = b'<p class="uc-error-subcaption">Too many users have viewed or downloaded this file</p>'
    drive.give(f"/uc?id={identifier(ALL[2])}", Answer(page, 200, {"Content-Type": "text/html"}))
    with pytest.raises(
        UserError,
        match=r"_1/saved_models/trunk_best14\.pth could not be downloaded .*quota on Google Drive is exceeded",
    ) as caught:
        collect(released, 4, tmp_path / "to", tmp_path / "drop", QUICK)
    assert f"put it at {tmp_path}/to/fold1/" in str(caught.value)


@pytest.fixture(scope="module")
def trunk():
    """BN-Inception with random weights and statistics, as it would be after training."""
    generator = torch.Generator().manual_seed(0)
    network = BNInception().eval()
    for tensor in network.state_dict().values():
        if tensor.dtype == torch.float32 and tensor.dim() == 1:
            tensor.add_(0.1 * torch.rand(tensor.shape, generator=generator))
    return network


@pytest.fixture(scope="module")
def layer():
    torch.manual_seed(1)
    return torch.nn.Linear(1024, 128)


def saved(folder, trunk, head, prefix=""):
    """The two files of a fold, with their original tensor names."""
    embedder = {"net.0.weight": head.weight, "net.0.bias": head.bias}
    embedder |= {"last_linear.weight": head.weight, "last_linear.bias": head.bias}
    parts = {"trunk": trunk.state_dict(), "embedder": {name: tensor.detach() for name, tensor in embedder.items()}}
    for module, tensors in parts.items():
        torch.save({prefix + name: tensor for name, tensor in tensors.items()}, folder / f"{module}_best14.pth")
    return folder / "trunk_best14.pth", folder / "embedder_best14.pth"


@pytest.mark.parametrize("prefix", ["", "module."])
def test_a_converted_model_embeds_as_trunk_and_layer_do(tmp_path, trunk, layer, prefix):
    weights = convert_mlrc(SPEC, *saved(tmp_path, trunk, layer, prefix))
    model = EmbeddingModel(SPEC, load_weights=False).eval()
    model.load_state_dict(weights)
    images = torch.randint(0, 256, (3, 3, 64, 64), generator=torch.Generator().manual_seed(2), dtype=torch.uint8)
    caffe = images.flip(1).float() - torch.tensor([104.0, 117.0, 128.0]).view(1, 3, 1, 1)
    with torch.inference_mode():
        by_hand = layer(trunk(caffe))
        actual = model(images)
    assert actual.shape == (3, 128) and by_hand.std() > 1e-3
    torch.testing.assert_close(actual, by_hand, rtol=1e-5, atol=1e-6)


def change(path, edit):
    tensors = torch.load(path, weights_only=True)
    edit(tensors)
    torch.save(tensors, path)


@pytest.mark.parametrize(
    ("module", "edit", "sentence"),
    [
        ("trunk", lambda t: t.pop("conv1_7x7_s2.weight"), "its tensor 'conv1_7x7_s2.weight' is missing from the file"),
        ("trunk", lambda t: t.update({"extra.weight": torch.zeros(1)}), "it has no tensor 'extra.weight'"),
        (
            "trunk",
            lambda t: t.update({"conv2_3x3.bias": torch.zeros(7)}),
            "'conv2_3x3.bias' must have shape (192,), found (7,)",
        ),
        ("embedder", lambda t: t.pop("net.0.weight"), "must contain tensor 'net.0.weight', found last_linear"),
        ("embedder", lambda t: t.pop("net.0.bias"), "must contain tensor 'net.0.bias'"),
        ("embedder", lambda t: t.clear(), "must contain tensor 'net.0.weight', found no tensors"),
        ("embedder", lambda t: t.update({"net.2.weight": torch.zeros(1)}), "it has no tensor 'net.2.weight'"),
        (
            "embedder",
            lambda t: t.update({k: torch.zeros(64, 1024) for k in t if "weight" in k}),
            "'weight' must have shape (128, 1024), found (64, 1024)",
        ),
        (
            "embedder",
            lambda t: t.update({"last_linear.bias": torch.zeros(128)}),
            "'last_linear.bias' and 'net.0.bias' must be equal, but they differ",
        ),
    ],
)
def test_tensors_that_do_not_match_are_named(tmp_path, trunk, layer, module, edit, sentence):
    files = saved(tmp_path, trunk, layer)
    change(tmp_path / f"{module}_best14.pth", edit)
    with pytest.raises(UserError) as caught:
        convert_mlrc(SPEC, *files)
    assert sentence in str(caught.value) and f"{module}_best14.pth'" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("keep", [0, 1000, -1000])
def test_a_truncated_checkpoint_is_named(tmp_path, trunk, layer, keep):
    files = saved(tmp_path, trunk, layer)
    files[1].write_bytes(files[1].read_bytes()[:keep])
    with pytest.raises(UserError, match=r"embedder_best14\.pth' cannot be read: the file is damaged.* Delete it and"):
        convert_mlrc(SPEC, *files)


def test_a_whole_module_can_be_converted_too(tmp_path, trunk, layer):
    files = saved(tmp_path, trunk, layer)
    expected = convert_mlrc(SPEC, *files)
    torch.save((torch.nn.DataParallel(trunk), [0.5], None), files[0])
    actual = convert_mlrc(SPEC, *files)
    assert all(torch.equal(actual[name], tensor) for name, tensor in expected.items())


def test_a_prefix_that_makes_two_names_one_is_refused(tmp_path, trunk, layer):
    files = saved(tmp_path, trunk, layer)
    change(files[1], lambda tensors: tensors.update({"module.net.0.bias": tensors["net.0.bias"]}))
    with pytest.raises(UserError, match=r"contain both 'module\.net\.0\.bias' and 'net\.0\.bias', so it is unclear"):
        convert_mlrc(SPEC, *files)


def test_every_layout_can_be_fetched_converted_and_marked():
    assert set(released_files.LAYOUTS) == set(CONVERTERS) == set(LAYOUTS)


@pytest.fixture(scope="module", params=["cub200", "sop"])
def dataset(request):
    return request.param


@pytest.fixture(scope="module")
def sop_network():
    return original_layouts.contextual_network(norm=False)


@pytest.fixture(scope="module")
def theirs(dataset, sop_network):
    return sop_network if dataset == "sop" else original_layouts.contextual_network(norm=True)


def spec_of(dataset):
    return shipped("contextual_released").run(dataset, "hybrid_released").training["model"]


@pytest.mark.filterwarnings("ignore:Couldn't retrieve source code")
@pytest.mark.parametrize(("wrap", "legacy"), [(lambda network: network, False), (torch.nn.DataParallel, True)])
def test_a_contextual_checkpoint_embeds_as_the_authors_network_does(tmp_path, dataset, theirs, wrap, legacy):
    original_layouts.save_contextual(tmp_path / "a.pt", wrap(theirs), legacy)
    model = EmbeddingModel(spec_of(dataset), load_weights=False).eval()
    model.load_state_dict(convert("contextual", spec_of(dataset), {"model": tmp_path / "a.pt"}))
    images = torch.randint(0, 256, (2, 3, 64, 64), generator=torch.Generator().manual_seed(2), dtype=torch.uint8)
    mean, std = (torch.tensor(v).view(1, 3, 1, 1) for v in ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)))
    with torch.inference_mode():
        actual = model(images)
    expected = original_layouts.embed(theirs, (images / 255 - mean) / std)
    torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-5)
    assert (expected[0] - expected[1]).abs().max() > 1e-3


def set_nan(network):
    with torch.no_grad():
        network.backbone.layer4[2].bn3.bias[0] = torch.nan


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (
            lambda network: setattr(network.backbone, "avgpool", torch.nn.MaxPool2d(7)),
            "have the pooling MaxPool2d, expected",
        ),
        (lambda network: delattr(network, "remap"), "must have a module 'remap', found backbone"),
        (
            lambda network: setattr(network, "remap", torch.nn.Linear(2048, 64)),
            "'weight' must have shape (512, 2048), found",
        ),
        (lambda network: setattr(network, "extra", torch.nn.Linear(2, 2)), "it has no tensor 'extra.weight'"),
        (lambda network: setattr(network.backbone, "fc", torch.nn.Linear(2, 2)), "it has no tensor 'fc.weight'"),
        (set_nan, "'layer4.2.bn3.bias' contains NaN or infinite values"),
    ],
)
def test_a_contextual_checkpoint_that_does_not_fit_is_refused(tmp_path, sop_network, change, sentence):
    network = copy.deepcopy(sop_network)
    change(network)
    original_layouts.save_contextual(tmp_path / "a.pt", network)
    with pytest.raises(UserError) as caught:
        convert("contextual", spec_of("sop"), {"model": tmp_path / "a.pt"})
    assert sentence in str(caught.value) and "use the checkpoint of this dataset" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_checkpoint_of_another_dataset_is_refused_although_its_tensors_fit(tmp_path, dataset, theirs):
    original_layouts.save_contextual(tmp_path / "a.pt", theirs)
    other = {"cub200": "sop", "sop": "cub200"}[dataset]
    with pytest.raises(UserError, match=r"have the pooling Adaptive(Max|Avg)Pool2d, expected Adaptive"):
        convert("contextual", spec_of(other), {"model": tmp_path / "a.pt"})
    theirs = copy.deepcopy(theirs)
    theirs.backbone.avgpool = torch.nn.AdaptiveMaxPool2d(1) if other == "cub200" else torch.nn.AdaptiveAvgPool2d(1)
    original_layouts.save_contextual(tmp_path / "a.pt", theirs)
    with pytest.raises(UserError, match=r"have (no|a) layer norm 'standardize', but 'model\.head' is"):
        convert("contextual", spec_of(other), {"model": tmp_path / "a.pt"})


@pytest.mark.parametrize("content", [{"a": torch.ones(1)}, ([0.5], None), (), 3])
def test_a_file_without_a_network_is_refused(tmp_path, content):
    torch.save(content, tmp_path / "a.pt")
    with pytest.raises(UserError, match="must be a tuple that starts with a pickled network"):
        convert("contextual", spec_of("sop"), {"model": tmp_path / "a.pt"})


def test_the_contextual_study_evaluates_under_the_rules_of_contextual_256():
    """Only training differs: images, network and metrics are the same."""
    study, trained = shipped("contextual_released"), shipped("contextual_256")
    assert study.datasets == trained.datasets == ("cub200", "cars196", "sop", "inat_mini", "inshop")
    for name in study.datasets:
        run, peer = study.run(name, "hybrid_released"), trained.run(name, "hybrid")
        assert facts.label(study, "hybrid_released") == f"{trained.rows['hybrid'].label} (released, best on test)"
        assert run.settings["released"]["github_release"].endswith("@v1.0.0") and run.members == 1
        for key in ("split", "precision"):
            assert run.settings[key] == peer.settings[key]
        for key in ("pooling", "head", "batch_norm"):
            assert run.settings["model"].get(key) == peer.settings["model"].get(key)
        for key in ("resize", "eval"):
            assert run.settings["transforms"].get(key) == peer.settings["transforms"].get(key)
        for key in ("metrics", "table"):
            assert run.settings["evaluation"][key] == peer.settings["evaluation"][key]


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ("name: resnet50", "name: bn_inception", "need the backbone resnet50, the head Linear or LayerNormLinear"),
        ("head: {class: Linear, dim: 512, normalise: 1e-12}", "head: {class: Identity}", "need the backbone resnet50"),
        ("pooling: {class: Max}", "pooling: {class: GeM}", "and the pooling Average or Max"),
        (
            "scheme: class_halves",
            "scheme: class_disjoint_folds, folds: 4",
            "are single models, but the split has 4 folds",
        ),
        ("contextual-similarity@v1.0.0", "contextual-similarity", "github_release"),
    ],
)
def test_a_mistake_in_a_contextual_row_is_one_sentence(tmp_path, old, new, sentence):
    text = (ROOT / "config/studies/contextual_released.yaml").read_text(encoding="utf-8")
    assert old in text
    with pytest.raises(UserError) as caught:
        own_study(tmp_path, text.replace(old, new, 1))
    assert sentence in str(caught.value) and "mine.yaml" in str(caught.value)


@pytest.fixture
def study():
    return shipped("mlrc_released")


def test_the_study_evaluates_under_the_rules_of_the_reality_check(study):
    """Only training differs: images, network and metrics are the same as in mlrc."""
    trained = shipped("mlrc")
    ids = set()
    for row in study.rows.values():
        assert row.name == f"{row.compare_to}_released" and row.seeds == (0,)
        for dataset in ("cub200", "cars196"):
            run = study.run(dataset, row.name)
            ours, theirs = run.settings, trained.run(dataset, row.compare_to).settings
            ids.add(ours["released"]["gdrive_folder"])
            assert ours["model"]["backbone"]["name"] == theirs["model"]["backbone"]["name"]
            assert ours["model"]["head"] == theirs["model"]["head"]
            assert ours["split"] == theirs["split"] and ours["evaluation"] == theirs["evaluation"]
            for key in ("resize", "eval"):
                assert ours["transforms"][key] == theirs["transforms"][key]
            assert set(run.training) == {"model", "transforms", "sampler", "precision"}
    assert len(ids) == 8


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        (
            "ms_within_pair_released:",
            "ms_theirs:",
            "row 'ms_theirs': a row's name must end in '_released' if and only if",
        ),
        ("released: {layout: mlrc}", "released: {layout: mlcr}", "did you mean 'mlrc'"),
        ("released: {layout: mlrc}", "released: {}", "'released.layout' is missing. Known: mlrc, contextual."),
        ("gdrive_folder: 1il", "gdrive: 1il", "did you mean 'gdrive_folder'"),
        (
            "head: {class: Linear, dim: 128}",
            "head: {class: Identity}",
            "'model.head' must be '{class: Linear, dim: …}'",
        ),
        (
            "method: ms_within_pair\n",
            "label: MS\n    loss: {class: MultiSimilarityLoss}\n",
            "'loss' has no effect on 'released' checkpoints, which are not trained. Remove it.",
        ),
        (
            "method: ms_within_pair\n    compare_to: ms_within_pair\n    released: {layout: mlrc}\n    datasets:",
            "label: MS\n    datasets:\n      sop: {released: {layout: mlrc}}",
            "'released.layout' is missing. Known: mlrc, contextual.",
        ),
    ],
)
def test_a_mistake_in_a_row_is_one_sentence(tmp_path, old, new, sentence):
    text = (ROOT / "config/studies/mlrc_released.yaml").read_text(encoding="utf-8")
    assert old in text
    with pytest.raises(UserError) as caught:
        own_study(tmp_path, text.replace(old, new, 1))
    assert sentence in str(caught.value) and "mine.yaml" in str(caught.value)


def test_a_row_of_a_released_checkpoint_is_marked_and_neither_trained_nor_the_reference(tmp_path, study):
    row = "{method: ms_within_pair, released: {layout: mlrc}}"
    both = own_study(
        tmp_path, f"base: mlrc\ntitle: Both\ndatasets: {{cub200: }}\nmethods: {{ms_within_pair_released: {row}}}\n"
    )
    assert facts.label(both, "ms_within_pair_released") == "MS + within-pair (released)"
    assert facts.label(both, "ms_within_pair") == "MS + within-pair"
    assert facts.reference(both, "cub200") == "pretrained"
    assert facts.reference(study, "cub200") is None
    runs = [both.run("cub200", row) for row in ("ms_within_pair_released", "ms")]
    assert facts.backbone(runs) == "bn_inception (released weights), bn_inception (imagenet weights)"
    assert facts.scale(study, "cub200") == ""
    quoted = scoped(study, "published", load_published(ROOT / "resources/published/mlrc.yaml"))
    assert not any("(released)" in facts.label(quoted, row) for row in quoted.rows), (
        "a quoted value is not marked as released"
    )


def test_the_example_of_the_documentation_is_a_study(tmp_path):
    text = (ROOT / "docs/weights.md").read_text(encoding="utf-8")
    (example,) = [block.split("```")[0] for block in text.split("```yaml\n") if block.startswith("base: mlrc")]
    mine = own_study(tmp_path, example)
    assert len(mine.rows) == 20 and mine.datasets == ("cub200",)
    for method, folder in (("ms_within_pair_released", "16ZMaOaDxidJ95pp18NDPhdHgb7VmK3kQ"), ("ms", None)):
        assert (mine.run("cub200", method).released or {}).get("gdrive_folder") == folder
    study = shipped("mlrc_released")
    for runs in study.runs.values():
        for run in runs.values():
            assert f"`{run.released['gdrive_folder']}`" in text

"""After a user's mistake: one message that names the file or key, and no incomplete file."""

import hashlib

import pytest

SPLIT = "results/letters/glyphs/split.json"
PACK = "resources/datasets/glyphs/packed/original/pack.json"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["leters"], "Unknown study 'leters'; did you mean 'letters'?"),
        (["leters_so_far"], "Unknown study 'leters_so_far'; did you mean 'letters_so_far'?"),
        (["letters_published"], "config/studies/letters.yaml has no 'published' values"),
        (["--config", "study=leters"], "Unknown study 'leters'; did you mean 'letters'?"),
        (["--config", "methods=[tripplet]"], "has no row 'tripplet'; did you mean 'triplet'?"),
        (["results/letters/glyphs/tripplet/seed0/separated.json"], "no row 'tripplet'; did you mean 'triplet'?"),
        (
            ["data", "--config", "datasets=[glyph]"],
            "Config 'datasets': unknown dataset 'glyph'; did you mean 'glyphs'?",
        ),
        (["--config", "devise=cpu"], "unknown key 'devise'; did you mean 'device'?"),
        (["--config", "device=gpu"], "'device' is 'gpu'; did you mean 'cuda'? Known: auto, cpu, cuda, mps."),
        (
            ["--dry-run", "--config", "device=cuda"],
            "Config 'device' is 'cuda', but no GPU is visible: check `nvidia-smi`",
        ),
        (["--config", "seeds=zero"], "'seeds' must be a list or empty, found 'zero'."),
        (["--config", "workers=-1"], "'workers' must be at least 0, found -1."),
    ],
)
def test_mistakes_on_the_command_line(unstarted, arguments, sentence):
    output = unstarted.fail("--cores", "1", *arguments)
    assert sentence in output
    assert "Traceback" not in output
    assert not unstarted.path("results").exists()


@pytest.mark.parametrize(
    ("file", "old", "new", "sentence"),
    [
        (
            "studies/letters",
            "evaluate_every",
            "evaluate_evry",
            "unknown key 'evaluate_evry' in 'protocol.schedule'; did you",
        ),
        (
            "studies/letters",
            "epochs: 2",
            "epochs: two",
            "'protocol.schedule.epochs' must be a whole number, found '",
        ),
        ("studies/letters", "metric: MAP@R", "metric: MAP@Q", "Unknown metric 'MAP@Q'; did you mean 'MAP@R'?"),
        (
            "studies/letters",
            "label: Triplet",
            "label: Triplet\n    datasets: {glyph: {loss: {margin: 0.5}}}",
            "row 'triplet' has no hyper-parameters for 'glyphs', only for glyph. Add 'methods.triplet",
        ),
        (
            "studies/letters",
            "loss: {class: ProxyNCALoss}",
            "loss: {class: TripletMarginLoss}\n    miner: {class: MultiSimilarityMiner}",
            "row 'proxy_nca': the miner 'MultiSimilarityMiner' needs several images per class in a batch",
        ),
        ("studies/letters", ", folds: 2}", "}", "key 'folds' is missing in 'protocol.split'"),
        ("studies/letters", "glyphs: {}", "glyph: {}", "unknown dataset 'glyph'; did you mean 'glyphs'?"),
        ("studies/letters", "ProxyNCALoss", "ProxyNCALos", "did you mean 'ProxyNCALoss'?"),
        ("studies/letters", "resized_crop: {size", "resize_crop: {size", "did you mean 'random_resized_crop'?"),
        ("datasets/glyphs", "parser:", "praser:", "unknown key 'praser'; did you mean 'parser'?"),
        ("datasets/glyphs", "root: glyphs", "root: glyph", "the image folder 'root' is 'glyph', which does not exist."),
        (
            "datasets/glyphs",
            "parser: folder",
            "parser: csv\ncsv: labels.csv",
            "glyphs.yaml: 'csv' is 'labels.csv', but there is no such file.",
        ),
        ("datasets/glyphs", "parser: folder", "parser: my_parser:parse", "there is no file my_parser.py beside the"),
        (
            "studies/letters",
            "batch: 8",
            "batch: 0",
            "row 'pretrained': 'sampler.batch' must be a whole number of at least 1",
        ),
        (
            "studies/letters",
            "small_net:SmallNet",
            "timm/vit_tiny_patch16_224",
            "takes images of 224 pixels, but 'transforms.train' makes 32 pixels. Add 'options: {img_size: 32}'",
        ),
        (
            "studies/letters",
            "resize:",
            "resize: {shorter: 28}",
            "'center_crop' of 'transforms.eval' crops 32 pixels from images with a shorter side of 28 pixels. Crop at",
        ),
        (
            "studies/letters",
            "small_net:",
            "smal_net:",
            "no file smal_net.py beside the Snakefile; did you mean 'small_",
        ),
        ("studies/letters", "SmallNet", "SmalNet", "small_net.py does not define 'SmalNet'; did you mean 'SmallNet'?"),
    ],
)
def test_mistakes_in_files(unstarted, file, old, new, sentence):
    """Snakemake reports all of these before it runs a job."""
    with unstarted.restored(f"config/{file}.yaml") as project:
        project.edit(f"config/{file}.yaml", old, new)
        output = project.fail("--cores", "1", "--dry-run")
    assert sentence in output
    assert f"config/{file.split('/')[0]}" in output
    assert "Traceback" not in output


def test_a_study_with_the_name_of_a_variant(unstarted):
    with unstarted.restored("config/studies/letters_so_far.yaml") as project:
        project.write("config/studies/letters_so_far.yaml", project.read("config/studies/letters.yaml"))
        output = project.fail("--cores", "1")
    assert "letters_so_far.yaml: 'letters_so_far' is already a target of study 'letters'. Rename this file." in output
    assert "Traceback" not in output


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("documents: []", "'documents'"),
        ("document: []", "unknown key 'document'; did you mean 'documents'?"),
        ("documents: [{source: A, values: {glyphs: {triplet: {seperated: {P@1: 1}}}}}]", "did you mean 'separated'?"),
        ("documents: [{source: A, values: {glyphs: {triplet: {separated: {P@1: 59 %}}}}}]", "must be a number"),
        ("documents: [{source: A, values: {letters: {}}}]", "has no values for any dataset and row of study 'letters'"),
    ],
)
def test_invalid_published_values(unstarted, text, sentence):
    published, study = "resources/published/letters.yaml", "config/studies/letters.yaml"
    with unstarted.restored(published, study) as project:
        project.write(published, text)
        project.edit(study, "title: Letters", "title: Letters\npublished: letters.yaml")
        output = project.fail("--cores", "1", "letters_published")
    assert sentence in output and "published/letters.yaml" in output
    assert "Traceback" not in output
    assert not unstarted.path("results").exists()


@pytest.mark.parametrize(
    ("old", "new", "target", "sentence"),
    [
        ("parser: folder", "parser: foldr", PACK, "did you mean 'folder'?"),
        ("root: glyphs", "root: nowhere", PACK, "nowhere"),
        ("parser: folder", "parser: folder\nexpected: {images: 61}", PACK, "61"),
    ],
)
def test_a_dataset_that_does_not_match_its_yaml(fresh, old, new, target, sentence):
    fresh.edit("config/datasets/glyphs.yaml", old, new)
    output = fresh.fail("--cores", "1", target)
    assert sentence in output
    assert not fresh.path("resources/datasets/glyphs/images.csv").exists()


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ("margin: 0.1", "margn: 0.1", "Unknown argument 'margn' of loss 'TripletMarginLoss'; did you mean 'margin'?"),
        ("lr: 0.001}\n    head", "lr: 1e+30}\n    head", "lower 'optimisers.*.lr'"),
    ],
)
def test_a_training_job_that_cannot_run(project, old, new, sentence):
    project.edit("config/studies/letters.yaml", old, new)
    target = "results/letters/glyphs/triplet/seed0/fold0/model.safetensors"
    output = project.fail("--cores", "1", "--", target)
    assert sentence in output
    assert not project.path(target).exists()
    assert sentence in project.read("logs/letters/glyphs/triplet/seed0/fold0/train.log")


def test_broken_images_are_all_named(fresh):
    fresh.path("glyphs/A/DejaVuSans.png").write_bytes(b"not an image")
    whole = fresh.path("glyphs/C/DejaVuSans.png").read_bytes()
    fresh.path("glyphs/C/DejaVuSans.png").write_bytes(whole[: len(whole) // 2])
    output = fresh.fail("--cores", "1", PACK)
    assert "A/DejaVuSans.png" in output and "C/DejaVuSans.png" in output
    assert not list(fresh.path("resources/datasets/glyphs/packed").rglob("*.*"))
    fresh.path("glyphs/A/DejaVuSans.png").unlink()
    fresh.path("glyphs/C/DejaVuSans.png").write_bytes(whole)
    fresh.succeed("--cores", "1", PACK)


def test_a_class_with_one_image_is_reported_and_harmless(fresh):
    for path in sorted(fresh.path("glyphs/L").iterdir())[1:]:
        path.unlink()
    output = fresh.succeed("--cores", "2", "--", "results/letters/glyphs/pretrained/seed0/separated.json")
    assert "Classes with only one image: 1 of 12 (the first has label" in output


@pytest.mark.parametrize(
    ("classes", "sentence"),
    [
        ("first: 7", "7 classes are too few for 2 folds"),
        ("first: 9", "needs an even number of classes, found 9: add `classes: {first: 8}` to the dataset's entry"),
        ("first: 99", "'classes.first' is 99, but the dataset has only 12 classes: lower it."),
    ],
)
def test_classes_that_cannot_be_split(fresh, classes, sentence):
    fresh.edit("config/studies/letters.yaml", "glyphs: {}", f"glyphs: {{classes: {{{classes}}}}}")
    assert sentence in fresh.fail("--cores", "1", SPLIT)
    assert not fresh.path(SPLIT).exists()


@pytest.mark.parametrize(("name", "sentence"), [("missing", "404"), ("wrong", "expected sha256 " + "a" * 64)])
def test_a_download_that_is_missing_or_corrupt(fresh, server, name, sentence):
    server.give("/wrong", b"some bytes")
    entry = f"files:\n  - path: archive.bin\n    sha256: {'a' * 64}\n    from: [{{url: {server.url}/{name}}}]\n"
    fresh.write("config/datasets/glyphs.yaml", fresh.read("config/datasets/glyphs.yaml") + entry)
    output = fresh.fail("--cores", "1", PACK)
    assert sentence in output
    assert "resources/datasets/glyphs/downloads/archive.bin" in output
    assert not list(fresh.path("resources/datasets/glyphs").rglob("*.bin*"))


def test_a_file_that_changes_after_its_download_is_noticed(fresh, server):
    good, url = hashlib.sha256(b"some bytes").hexdigest(), server.give("/right", b"some bytes")
    entry = f"files:\n  - path: archive.bin\n    sha256: {good}\n    from: [{{url: {url}}}]\n"
    fresh.write("config/datasets/glyphs.yaml", fresh.read("config/datasets/glyphs.yaml") + entry)
    target = "resources/datasets/glyphs/downloads/archive.bin"
    fresh.succeed("--cores", "1", "--", target)
    fresh.path(target).write_bytes(b"other bytes")
    output = fresh.fail("--cores", "1", "--", PACK)
    assert "archive.bin" in output and "delete it and run again" in output


def test_a_checkpoint_of_another_configuration_is_refused(project):
    """``--rerun-triggers mtime`` keeps the old checkpoint although the model's settings have changed."""
    run = "results/letters/glyphs/triplet/seed0/fold0"
    project.edit("config/studies/letters.yaml", "dim: 16", "dim: 8")
    project.path(f"{run}/embeddings.safetensors").unlink()
    target = f"{run}/embeddings.safetensors"
    output = project.fail("--cores", "1", "--rerun-triggers", "mtime", "--", target)
    assert f"{run}/model.safetensors was trained with different 'model' settings: delete it and run again" in output


def test_a_damaged_checkpoint_is_refused(project):
    run = "results/letters/glyphs/triplet/seed0/fold0"
    model = project.path(f"{run}/model.safetensors")
    model.write_bytes(model.read_bytes()[:1000])
    project.path(f"{run}/embeddings.safetensors").unlink()
    output = project.fail("--cores", "1", "--", f"{run}/embeddings.safetensors")
    assert f"{run}/model.safetensors is damaged" in output

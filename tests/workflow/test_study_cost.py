"""The cost of a study through the command line: before, after, and in a dry run."""

import json
import re


def test_the_cost_of_a_finished_study(project):
    output = project.succeed("--cores", "1", "letters_cost", "--config", "gpu=cpu", "methods=[triplet,proxy_nca]")
    report = project.path("results/letters_selected_proxy_nca_triplet_cost")
    text = (report / "cost.md").read_text(encoding="utf-8")
    assert text in output
    assert {path.name for path in report.iterdir()} == {f"cost.{kind}" for kind in ("md", "csv", "json", "png", "svg")}
    assert re.search(r"\| Triplet +\| +2 \| +6 \| ", text)
    assert "| CPU memory | CPU hours |" in text and "GPU" not in text
    assert "Images per fold: 15 train, 15 val, 30 test." in text
    # the runs that are finished here
    assert re.search(r"\| Triplet +\| glyphs +\| +2 of 2 \| +6 \| ", text)
    rows = {row["row"]: row for row in json.loads((report / "cost.json").read_text(encoding="utf-8"))["rows"]}
    assert rows["triplet"]["speed_from"] == "row" and rows["triplet"]["actual"]["on_gpu"]
    assert rows["triplet"]["step_flops"] > 0 and rows["triplet"]["actual"]["memory_mb"] > 0


def test_a_study_without_the_chosen_datasets_has_no_cost(project):
    output = project.fail("--dry-run", "--cores", "1", "letters_cost", "--config", "datasets=[emoji]")
    assert "Error: Config 'datasets' is [emoji], but study 'letters' has none of them. Choose among: glyphs." in output


def test_a_smaller_gpu_gives_a_warning_in_the_dry_run_and_reruns_nothing(project):
    """Snakemake cannot know the memory of a user-defined network, so the second study has a known network."""
    project.edit("config/gpus.yaml", "  matches: A100.*40GB\n  memory: 40\n", "  matches: A100.*40GB\n  memory: 0.5\n")
    assert project.planned("--config", "gpu=t4") == {}
    study = project.read("config/studies/letters.yaml").replace('"small_net:SmallNet"', "efficientnet_lite0")
    study = study.replace("size: 32", "size: 64")
    project.write("config/studies/large.yaml", study)
    project.edit("config/datasets/glyphs.yaml", "root: glyphs", "root: glyphs\nexpected: {images: 60, classes: 12}")
    output = project.succeed("--dry-run", "--cores", "1", "large")
    assert "large.yaml, rows 'triplet', 'proxy_nca': a training step needs at least 0." in output
    assert (
        "GPU memory, but NVIDIA A100 40 GB has 0.5 GiB. Lower 'sampler.batch' (8), set 'forward: {class: Recomputed"
        in output
    )

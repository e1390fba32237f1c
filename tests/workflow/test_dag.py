"""The whole DAG on small real data: its outputs, and what triggers a rerun."""

import csv
import json
import re
import shutil

import pytest
from safetensors.numpy import load_file

RUN = "results/letters/glyphs/triplet/seed0/fold0"


def test_all_outputs_have_their_documented_paths(finished):
    for name in ("model.safetensors", "history.csv", "run.json", "embeddings.safetensors"):
        assert finished.path(f"{RUN}/{name}").is_file()
    assert list(finished.path(f"{RUN}/tensorboard").glob("events.*"))
    for view in ("separated", "concatenated"):
        assert finished.path(f"results/letters/glyphs/triplet/seed0/{view}.json").is_file()
    for kind in ("md", "csv", "tex"):
        assert finished.path(f"results/letters/glyphs/table.{kind}").stat().st_size > 100
    for figure in ("metrics", "curves", "recall", "map", "gallery"):
        for kind in ("png", "svg"):
            assert finished.path(f"results/letters/figures/glyphs_{figure}.{kind}").stat().st_size > 5000
    assert finished.path("results/letters/index.html").stat().st_size > 50_000
    assert finished.path("logs/letters/glyphs/triplet/seed0/fold0/train.log").is_file()
    assert finished.path("logs/letters/glyphs/triplet/seed0/fold0/train.tsv").is_file()


def test_every_number_can_be_traced_to_its_run(finished):
    record = json.loads(finished.read(f"{RUN}/run.json"))
    assert record["configuration"]["loss"] == {"class": "TripletMarginLoss", "margin": 0.1}
    assert (record["seed"], record["fold"], record["device"]) == (0, 0, "cpu")
    assert len(record["fingerprint"]) == 64
    assert set(record["data"]) == {"split", "pixels"}
    assert record["versions"]["torch"]
    rows = list(csv.DictReader(finished.read(f"{RUN}/history.csv").splitlines()))
    assert [row["step"] for row in rows] == ["0", "3", "6"]
    assert float(rows[record["best_epoch"]]["val_MAP@R"]) == record["best_value"]


def test_rows_are_compared_on_their_seeds(project):
    """With one seed there is no test. With three, every pair of rows has one, and a figure shows the differences."""
    lines = list(csv.DictReader(project.read("results/letters/glyphs/comparison.csv").splitlines()))
    assert len(lines) == 6 and {line["note"] for line in lines} == {"No interval and no test: one seed in common."}
    project.edit("config/studies/letters.yaml", "seeds: [0]", "seeds: [0, 1, 2]")
    for path in list(project.path("results/letters/glyphs").glob("*/seed0/*ted.json")):
        for seed in (1, 2):
            result = json.loads(path.read_text(encoding="utf-8"))
            result["metrics"]["MAP@R"] += 0.01 * seed if path.parts[-3] == "triplet" else 0
            project.write(str(path.relative_to(project.folder)).replace("seed0", f"seed{seed}"), json.dumps(result))
    folder = "results/letters_so_far"
    project.succeed("--cores", "1", "--", f"{folder}/glyphs/comparison.csv", f"{folder}/figures/glyphs_differences.png")
    lines = list(csv.DictReader(project.read(f"{folder}/glyphs/comparison.csv").splitlines()))
    for line in lines:
        assert (line["seeds"], line["confidence"], line["note"]) == ("3", "0.75", "")
        assert float(line["low"]) <= float(line["difference"]) <= float(line["high"])
    first = next(line for line in lines if (line["first"], line["second"]) == ("pretrained", "triplet"))
    assert float(first["high"]) - float(first["low"]) == pytest.approx(2) and first["pairs"] == "3"
    assert project.path(f"{folder}/figures/glyphs_differences.svg").stat().st_size > 5000


def test_views_have_the_dimensions_of_their_folds(finished):
    assert load_file(finished.path(f"{RUN}/embeddings.safetensors"))["test"].shape == (30, 16)
    dims = {}
    for method in ("triplet", "pretrained"):
        for view in ("separated", "concatenated"):
            dims[method, view] = json.loads(finished.read(f"results/letters/glyphs/{method}/seed0/{view}.json"))["dim"]
    assert dims == {
        ("triplet", "separated"): 16,
        ("triplet", "concatenated"): 32,
        ("pretrained", "separated"): 8,
        ("pretrained", "concatenated"): 16,
    }


def test_the_table_has_every_row_and_a_caption(finished):
    table = finished.read("results/letters/glyphs/table.md")
    assert table.index("Pretrained") < table.index("Triplet") < table.index("ProxyNCA")
    assert "30 test images of 6 classes" in table
    rows = list(csv.DictReader(finished.read("results/letters/glyphs/table.csv").splitlines()))
    assert len(rows) == 3
    evaluation = json.loads(finished.read("results/letters/glyphs/triplet/seed0/concatenated.json"))
    assert any(abs(100 * evaluation["metrics"]["MAP@R"] - float(v)) < 1e-9 for v in rows[1].values() if _is_number(v))


def _is_number(text):
    try:
        float(text)
    except ValueError:
        return False
    return True


def test_logs_have_no_carriage_returns(finished):
    logs = [*finished.path("logs").rglob("*.log")]
    assert logs
    for log in logs:
        assert "\r" not in log.read_text(encoding="utf-8"), log


def test_training_state_is_deleted_after_training(finished):
    assert not list(finished.path("results/state").rglob("*.bin"))


def test_running_again_does_nothing(finished):
    assert finished.planned() == {}


def test_a_changed_hyper_parameter_reruns_that_method_and_what_depends_on_it(project):
    project.edit("config/studies/letters.yaml", "margin: 0.1", "margin: 0.2")
    planned = project.planned()
    assert planned["train"] == planned["embed"] == 2
    assert planned["evaluate"] == 1
    assert planned["figure"] == 5
    assert "split" not in planned and "pack" not in planned
    output = project.succeed("--detailed-summary")
    others = [line for line in output.splitlines() if "/proxy_nca/" in line.split()[0] and "model" in line.split()[0]]
    assert len(others) == 2
    assert all("no update" in line for line in others), others


def test_reordered_yaml_keys_rerun_nothing(project):
    schedule = "schedule: {epochs: 2, steps_per_epoch: 3, evaluate_every: 1}"
    project.edit(
        "config/studies/letters.yaml", schedule, "schedule: {evaluate_every: 1, epochs: 2, steps_per_epoch: 3}"
    )
    project.edit("config/studies/letters.yaml", "    backbone: {class: Adam, lr: 0.001}\n", "")
    project.edit(
        "config/studies/letters.yaml", "  optimisers:\n", "  optimisers:\n    backbone: {lr: 1e-3, class: Adam}\n"
    )
    project.edit(
        "config/studies/letters.yaml",
        "{scheme: class_disjoint_folds, folds: 2}",
        "{folds: 2, scheme: class_disjoint_folds}",
    )
    assert not {"split", "train", "embed", "evaluate"} & set(project.planned())


def test_a_changed_evaluation_trains_nothing(project):
    project.edit("config/studies/letters.yaml", "R@4, NMI]", "R@4, R@8, NMI]")
    planned = project.planned()
    assert planned["evaluate"] == 3
    assert not {"train", "embed", "split"} & set(planned)


def test_a_changed_label_or_column_reruns_only_the_report(project):
    project.edit("config/studies/letters.yaml", "label: Triplet", "label: Triplet margin")
    project.edit("config/studies/letters.yaml", "table: [P@1, RP, MAP@R]", "table: [P@1, MAP@R]")
    assert set(project.planned()) == {"table", "figure", "page", "all"}
    plan = project.succeed("--dry-run", "--cores", "2")
    assert "rows.triplet.label: Triplet → Triplet margin" in plan
    assert len(plan) < 6000, "the settings themselves are not printed"
    output = project.succeed("--cores", "2")
    assert "Finished jobid: " in output and "Select jobs" not in output
    assert re.search(r"^3 of 8 jobs done \(37 %\); .*(left|running: )", output, re.MULTILINE)
    assert output.index("8 of 8 jobs done (100 %)") > output.index("7 of 8 jobs done")
    assert "Triplet margin" in project.read("results/letters/glyphs/table.md")
    assert project.planned() == {}


def test_another_number_of_workers_or_device_reruns_nothing(project):
    assert project.planned("--config", "workers=2", "device=cpu") == {}


def test_more_seeds_add_runs_and_keep_existing_ones(project):
    planned = project.planned("--config", "seeds=[0,1]")
    assert planned["train"] == planned["embed"] == 5
    assert planned["evaluate"] == 3


def test_a_deleted_checkpoint_is_retrained_bit_identically(project, finished):
    """Results depend only on the configuration, to the last bit; only times differ."""
    runs = [f"results/letters/glyphs/{method}/seed0/fold1" for method in ("triplet", "proxy_nca")]
    for run in runs:
        project.path(f"{run}/model.safetensors").unlink()
        project.path(f"{run}/embeddings.safetensors").unlink()
    embedded = [f"{run}/embeddings.safetensors" for run in runs]
    project.succeed("--cores", "2", "--config", "workers=1", "--", *embedded)
    for run in runs:
        for name in ("model.safetensors", "embeddings.safetensors"):
            assert project.path(f"{run}/{name}").read_bytes() == finished.path(f"{run}/{name}").read_bytes()


@pytest.mark.parametrize(
    ("gone", "rules"),
    [
        ("glyphs/triplet/seed0/fold1/model.safetensors", {"train": 1, "embed": 1, "evaluate": 1}),
        ("glyphs/triplet/seed0/fold1", {"train": 1, "embed": 1, "evaluate": 1}),
        ("glyphs/triplet/seed0/fold1/embeddings.safetensors", {"embed": 1, "evaluate": 1}),
        ("glyphs/triplet/seed0/separated.json", {"evaluate": 1}),
        ("glyphs/table.tex", {"table": 1}),
        ("figures/glyphs_recall.svg", {"figure": 1}),
    ],
)
def test_what_was_deleted_is_made_again(project, gone, rules):
    """Snakemake ignores a missing file if every later output exists, so each target also requests deleted files."""
    path = project.path(f"results/letters/{gone}")
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    planned = project.planned()
    assert planned.items() >= rules.items()
    assert planned.get("train", 0) == rules.get("train", 0) and planned["page"] == 1


def test_one_run_is_made_again_by_one_command(project, finished):
    run = "results/letters/glyphs/triplet/seed0/fold1"
    planned = project.planned("letters", "--forcerun", f"{run}/model.safetensors")
    assert planned.items() >= {"train": 1, "embed": 1, "evaluate": 1, "table": 1, "page": 1}.items()
    before = project.path(f"{run}/model.safetensors").stat().st_mtime_ns
    project.succeed("--cores", "1", f"{run}/model.safetensors", "--forcerun", f"{run}/model.safetensors")
    assert project.path(f"{run}/model.safetensors").stat().st_mtime_ns > before
    same = finished.path(f"{run}/model.safetensors").read_bytes()
    assert project.path(f"{run}/model.safetensors").read_bytes() == same


def test_only_some_methods(project):
    assert set(project.planned("--config", "methods=[triplet]")) == {"table", "figure", "page", "all"}


def test_touched_or_edited_scripts_rerun_nothing(project):
    for script in project.path("workflow/scripts").glob("*.py"):
        script.write_text(script.read_text(encoding="utf-8") + "\n# edited\n", encoding="utf-8")
    assert project.planned() == {}


def test_a_new_image_is_detected(project):
    source = project.path("glyphs/A/DejaVuSans.png")
    project.path("glyphs/A/another.png").write_bytes(source.read_bytes())
    planned = project.planned()
    assert planned["index"] == planned["pack"] == planned["split"] == 1
    assert planned["train"] == 5


def quote(project, rows="triplet: {concatenated: {MAP@R: 12.34}}"):
    """Give the study published values."""
    source = f"documents:\n  - source: Letters (2020)\n    values: {{glyphs: {{{rows}}}}}\n"
    project.write("resources/published/letters.yaml", source)
    project.edit("config/studies/letters.yaml", "title: Letters", "title: Letters\npublished: letters.yaml")


def test_published_numbers_are_next_to_ours(project):
    quote(project)
    assert set(project.planned()) == {"table", "figure", "page", "all"}
    project.succeed("--cores", "2", "--", "results/letters/glyphs/table.md")
    table = project.read("results/letters/glyphs/table.md")
    assert "12.34" in table and "Letters (2020)" in table


def test_three_published_rows_have_a_figure_of_ranks(project):
    rows = (f"{method}: {{separated: {{MAP@R: {value}}}}}" for method, value in (("pretrained", 9), ("triplet", 8)))
    quote(project, ", ".join([*rows, "proxy_nca: {separated: {MAP@R: 7}}"]))
    assert project.planned()["figure"] == 6
    project.succeed("--cores", "2", "--", "results/letters/figures/glyphs_ranks.png")
    assert project.path("results/letters/figures/glyphs_ranks.svg").stat().st_size > 5000


def test_published_values_need_no_images_and_no_runs(fresh):
    quote(fresh)
    shutil.rmtree(fresh.path("glyphs"))
    jobs = {"table": 1, "figure": 1, "page": 1, "letters_published": 1}
    assert fresh.planned("letters_published") == jobs
    fresh.succeed("--cores", "1", "letters_published")
    table = fresh.read("results/letters_published/glyphs/table.md")
    assert "Triplet" in table and "12.34" in table and "Nothing was measured here" in table and "ProxyNCA" not in table
    page = fresh.read("results/letters_published/index.html")
    assert "<h1>Letters – published values only, nothing measured here</h1>" in page
    assert "published cells" not in page
    assert len(fresh.read("results/letters_published/verdicts.csv").splitlines()) == 1
    assert not fresh.path("results/letters").exists() and not fresh.path("resources/datasets").exists()
    assert fresh.planned("letters_published") == {}
    fresh.edit("resources/published/letters.yaml", "12.34", "12.43")
    assert fresh.planned("letters_published") == jobs


def test_so_far_shows_existing_results_and_makes_no_others(project, finished):
    row = "results/letters/glyphs/proxy_nca"
    shutil.rmtree(project.path(row))
    project.edit("config/studies/letters.yaml", "margin: 0.1", "margin: 0.2")
    jobs = {"table": 1, "figure": 3, "page": 1, "letters_so_far": 1}
    assert project.planned("letters_so_far") == jobs
    project.succeed("--cores", "2", "letters_so_far")
    lines = project.read("results/letters_so_far/glyphs/table.md").splitlines()
    # after six steps a row may be no better than chance, and marked
    cells = {line.split("|")[1].strip(" ⚠"): line for line in lines if line.startswith("|")}
    assert cells["ProxyNCA"].count("not run") == 6 and "0 of 1" in cells["ProxyNCA"]
    assert "not run" not in cells["Triplet"]
    assert "30 test images" in lines[-1] and "(1 of 3 rows)" in lines[-1]
    assert "Letters – results so far" in project.read("results/letters_so_far/index.html")
    assert not project.path(row).exists()
    assert project.planned("letters_so_far") == {}
    # new results are detected
    project.write(f"{row}/seed0/separated.json", finished.read(f"{row}/seed0/separated.json"))
    assert project.planned("letters_so_far") == jobs


def test_so_far_without_results_says_so(fresh):
    assert fresh.planned("letters_so_far") == {"table": 1, "page": 1, "letters_so_far": 1}
    fresh.succeed("--cores", "1", "letters_so_far")
    assert "Nothing has been measured on glyphs yet." in fresh.read("results/letters_so_far/index.html")
    assert not fresh.path("results/letters").exists() and not fresh.path("resources/datasets").exists()


def test_a_variant_is_never_trained(project):
    output = project.fail("--dry-run", "results/letters_so_far/glyphs/triplet/seed0/fold0/model.safetensors")
    assert "No rule to produce" in output


def test_the_snakemake_report_has_the_captions(project):
    project.succeed("--report", "report.html", "--cores", "1")
    report = project.read("report.html")
    assert "glyphs_gallery.png" in report
    assert len(report) > 500_000


def test_a_sweep_has_its_own_figure_in_every_variant(fresh):
    sweep = "sweep: {label: Batch size, methods: [triplet], values: {4: {sampler: {batch: 4}}, 8: }}"
    fresh.edit("config/studies/letters.yaml", "title: Letters", f"title: Letters\n{sweep}")
    quote(fresh, "triplet_4: {concatenated: {P@1: 12.5}}")
    fresh.edit(
        "resources/published/letters.yaml", "    values:", "    approximate: true\n    reading_error: 0.1\n    values:"
    )
    planned = fresh.planned()
    assert (planned["train"], planned["figure"]) == (4, 1)
    # the figure of generalisation needs only histories
    fresh.edit("config/studies/letters.yaml", "also: [P@1]", "also: [P@1], watch: {train: [P@1]}")
    assert fresh.planned()["figure"] == 2
    planned = fresh.planned("results/letters/figures/glyphs_generalisation.png")
    assert planned["train"] == 4 and not {"embed", "evaluate"} & set(planned)
    jobs = {"table": 1, "figure": 1, "page": 1}
    assert fresh.planned("letters_so_far") == {**jobs, "letters_so_far": 1}
    assert fresh.planned("letters_published") == {**jobs, "letters_published": 1}
    fresh.succeed("--cores", "1", "letters_published", "letters_so_far")
    for target in ("letters_published", "letters_so_far"):
        assert fresh.path(f"results/{target}/figures/glyphs_sweep.svg").stat().st_size > 5000
        assert "≈\u00a012.5" in fresh.read(f"results/{target}/glyphs/table.md")
        assert "glyphs-sweep" in fresh.read(f"results/{target}/index.html")
    _, line = fresh.read("results/letters_so_far/verdicts.csv").splitlines()
    assert line.startswith("glyphs,triplet_4,") and line.endswith(",not run,")
    sentence = "0 of 1 published cells reproduced, 0 not, 0 undecided, 1 not run."
    assert sentence in fresh.read("results/letters_so_far/index.html").split("</header>")[0]

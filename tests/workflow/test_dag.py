"""The whole DAG on small real data: what it makes, and what it makes again."""

import csv
import json

from safetensors.numpy import load_file

RUN = "results/letters/glyphs/triplet/seed0/fold0"


def test_everything_is_made_where_the_path_scheme_says(finished):
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


def test_numbers_can_be_traced(finished):
    record = json.loads(finished.read(f"{RUN}/run.json"))
    assert record["configuration"]["loss"] == {"class": "TripletMarginLoss", "margin": 0.1}
    assert (record["seed"], record["fold"], record["device"]) == (0, 0, "cpu")
    assert len(record["fingerprint"]) == 64
    assert set(record["data"]) == {"split", "pixels"}
    assert record["versions"]["torch"]
    rows = list(csv.DictReader(finished.read(f"{RUN}/history.csv").splitlines()))
    assert [row["step"] for row in rows] == ["0", "3", "6"]
    assert float(rows[record["best_epoch"]]["val_MAP@R"]) == record["best_value"]


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


def test_the_table_has_every_row_and_says_what_it_is(finished):
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
    for log in finished.path("logs").rglob("*.log"):
        assert "\r" not in log.read_text(encoding="utf-8"), log


def test_state_is_gone_once_it_is_no_longer_needed(finished):
    assert not [path for path in finished.path("results/state").rglob("*") if path.is_file()]


def test_running_again_does_nothing(finished):
    assert finished.planned() == {}


def test_a_changed_hyper_parameter_reruns_that_method_and_what_depends_on_it(project):
    project.edit("config/studies/letters.yaml", "margin: 0.1", "margin: 0.2")
    planned = project.planned()
    assert planned["train"] == planned["embed"] == 2
    assert planned["evaluate"] == 2
    assert planned["figure"] == 5
    assert "split" not in planned and "pack" not in planned
    output = project.succeed("--detailed-summary")
    others = [line for line in output.splitlines() if "/proxy_nca/" in line.split()[0] and "model" in line.split()[0]]
    assert len(others) == 2
    assert all("no update" in line for line in others), others


def test_a_changed_evaluation_trains_nothing(project):
    project.edit("config/studies/letters.yaml", "R@4, NMI]", "R@4, R@8, NMI]")
    planned = project.planned()
    assert planned["evaluate"] == 6
    assert not {"train", "embed", "split"} & set(planned)


def test_a_changed_label_or_column_only_renders_again(project):
    project.edit("config/studies/letters.yaml", "label: Triplet", "label: Triplet margin")
    project.edit("config/studies/letters.yaml", "table: [P@1, RP, MAP@R]", "table: [P@1, MAP@R]")
    assert set(project.planned()) == {"table", "figure", "page", "all"}
    project.succeed("--cores", "2")
    assert "Triplet margin" in project.read("results/letters/glyphs/table.md")
    assert project.planned() == {}


def test_another_number_of_workers_or_device_reruns_nothing(project):
    assert project.planned("--config", "workers=2", "device=cpu") == {}


def test_more_seeds_add_runs_and_keep_those_that_are_there(project):
    planned = project.planned("--config", "seeds=[0,1]")
    assert planned["train"] == planned["embed"] == 5
    assert planned["evaluate"] == 6


def test_a_deleted_checkpoint_is_trained_to_the_same_bits(project, finished):
    """Every bit of a result is a function of the configuration; only times differ."""
    for method in ("triplet", "proxy_nca"):
        run = f"results/letters/glyphs/{method}/seed0/fold1"
        project.path(f"{run}/model.safetensors").unlink()
        project.path(f"{run}/embeddings.safetensors").unlink()
        project.succeed("--cores", "2", "--config", "workers=1", "--", f"{run}/embeddings.safetensors")
        for name in ("model.safetensors", "embeddings.safetensors"):
            assert project.path(f"{run}/{name}").read_bytes() == finished.path(f"{run}/{name}").read_bytes()


def test_only_some_methods(project):
    assert set(project.planned("--config", "methods=[triplet]")) == {"table", "figure", "page", "all"}


def test_touched_or_edited_scripts_rerun_nothing(project):
    for script in project.path("workflow/scripts").glob("*.py"):
        script.write_text(script.read_text(encoding="utf-8") + "\n# edited\n", encoding="utf-8")
    assert project.planned() == {}


def test_a_new_image_is_noticed(project):
    source = project.path("glyphs/A/DejaVuSans.png")
    project.path("glyphs/A/another.png").write_bytes(source.read_bytes())
    planned = project.planned()
    assert planned["index"] == planned["pack"] == planned["split"] == 1
    assert planned["train"] == 5


def test_published_numbers_stand_beside_ours(project):
    project.write(
        "resources/published/letters.yaml",
        """
        documents:
          - source: Letters (2020)
            values: {glyphs: {triplet: {concatenated: {MAP@R: 12.34}}}}
        """,
    )
    project.edit("config/studies/letters.yaml", "title: Letters", "title: Letters\npublished: letters.yaml")
    assert set(project.planned()) == {"table", "figure", "page", "all"}
    project.succeed("--cores", "2", "--", "results/letters/glyphs/table.md")
    table = project.read("results/letters/glyphs/table.md")
    assert "12.34" in table and "Letters (2020)" in table


def test_snakemakes_own_report_has_the_captions(finished):
    finished.succeed("--report", "report.html", "--cores", "1")
    report = finished.read("report.html")
    assert "glyphs_gallery.png" in report
    assert len(report) > 500_000

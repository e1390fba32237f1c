"""A user's method and dataset need only YAML and one class; the package is unchanged."""

import json
import re

from support.project import Project
from support.report import pages


def test_the_loss_of_the_manual_trains(project):
    """Put the manual's class beside the Snakefile, and its YAML lines below `methods:`."""
    files = pages.files("docs/own_loss.md")
    project.write("my_losses.py", files["my_losses.py"])
    method = files["config/studies/quickstart.yaml"]
    name = re.search(r"^  (\w+):$", method, re.MULTILINE)[1]
    project.edit(
        "config/studies/letters.yaml", "methods:\n", "methods:\n" + method.split("methods:\n")[1].rstrip() + "\n"
    )
    planned = project.planned()
    assert planned["train"] == 2
    evaluated = f"results/letters/glyphs/{name}/seed0/concatenated.json"
    project.succeed("--cores", "2", "--", evaluated)
    evaluation = json.loads(project.read(evaluated))
    assert 0 < evaluation["metrics"]["MAP@R"] <= 1
    # editing the user's class reruns that method and no other
    project.write("my_losses.py", files["my_losses.py"] + "\n# edited\n")
    assert project.planned()["train"] == 2


def test_the_dataset_of_the_manual_runs(tmp_path):
    """A folder of class folders and a few lines of YAML, with a smaller base study than in the manual."""
    project = Project.create(tmp_path / "project", classes=8, per_class=4)
    project.path("glyphs").rename(project.path("my_images"))
    for name, text in pages.files("docs/own_images.md").items():
        project.write(name, text)
    project.edit("config/studies/mine.yaml", "base: quickstart", "base: letters")
    table = "results/mine_selected_triplet/mine/table.md"
    assert project.planned("--config", "methods=[triplet]", "--", "mine")["page"] == 1
    project.succeed("--cores", "2", "--config", "methods=[triplet]", "--", table)
    assert "Triplet" in project.read(table)


def test_a_user_defined_parser(tmp_path):
    project = Project.create(tmp_path / "project", classes=8, per_class=4)
    project.write(
        "my_parser.py",
        """
        import pandas as pd


        def parse(dataset, downloads, images):
            paths = sorted(images.glob("*/*.png"))
            names = sorted({path.parent.name for path in paths})
            rows = []
            for path in paths:
                name = path.parent.name
                kind = "vowel" if name in "AEIOU" else "consonant"
                rows.append((str(path.relative_to(images)), names.index(name), name, kind, ""))
            return pd.DataFrame(rows, columns=["path", "label", "class_name", "super_label", "role"])
        """,
    )
    project.edit("config/datasets/glyphs.yaml", "parser: folder", "parser: my_parser:parse")
    project.succeed("--cores", "2", "--", "resources/datasets/glyphs/images.csv")
    assert "A/DejaVuSans.png,0,A,vowel" in project.read("resources/datasets/glyphs/images.csv")


def test_modules_that_a_users_module_imports_are_inputs_too(project):
    """All of the user's modules that a run imports are its inputs, are hashed, and are copied beside its model."""
    sources = {
        "my_loss.py": "import my_helper\nfrom pytorch_metric_learning.losses import TripletMarginLoss\n\n\n"
        "class Loss(TripletMarginLoss):\n    margin = my_helper.margin()\n",
        "my_helper.py": "def margin():\n    from my_package import numbers\n\n    return numbers.MARGIN\n",
        "my_package/__init__.py": "",
        "my_package/numbers.py": "MARGIN = 0.1\n",
    }
    for name, text in sources.items():
        project.write(name, text)
    project.edit(
        "config/studies/letters.yaml",
        "methods:\n",
        'methods:\n  mine:\n    label: Mine\n    loss: {class: "my_loss:Loss"}\n',
    )
    run = "results/letters/glyphs/mine/seed0/fold0"
    project.succeed("--cores", "1", "--", f"{run}/run.json")
    record = json.loads(project.read(f"{run}/run.json"))
    assert set(record["own_files"]) == {*sources, "small_net.py"}
    assert {name: project.read(f"{run}/code/{name}") for name in sources} == sources
    assert project.planned("--", f"{run}/run.json") == {}
    project.write("my_package/numbers.py", "MARGIN = 0.2\n")
    assert project.planned("--", f"{run}/run.json") == {"train": 1}
    # other rows import none of them
    assert project.planned("--", "results/letters/glyphs/triplet/seed0/fold0/run.json") == {}

"""A user's method and dataset need only YAML and one class; the package is unchanged."""

import json
import re

from support.project import ROOT, Project


def blocks(language):
    """The README's code blocks of a language, by the file name in their first comment."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    result = re.findall(rf"```{language}\n# (\S+)[^\n]*\n(.*?)```", text, re.DOTALL)
    return dict(result)


def test_the_loss_of_the_readme_trains(project):
    """Put the README's class beside the Snakefile, and its YAML lines below `methods:`."""
    code, yaml = blocks("python"), blocks("yaml")
    project.write("my_losses.py", code["my_losses.py"])
    method = yaml["config/studies/quickstart.yaml"]
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
    project.write("my_losses.py", code["my_losses.py"] + "\n# edited\n")
    assert project.planned()["train"] == 2


def test_the_dataset_of_the_readme_runs(tmp_path):
    """A folder of class folders and a few lines of YAML, with a smaller base study than in the README."""
    project = Project.create(tmp_path / "project", classes=8, per_class=4)
    project.path("glyphs").rename(project.path("my_images"))
    for file in ("config/datasets/mine.yaml", "config/studies/mine.yaml"):
        project.write(file, blocks("yaml")[file])
    project.edit("config/studies/mine.yaml", "base: quickstart", "base: letters")
    assert project.planned("--config", "methods=[triplet]", "--", "mine")["page"] == 1
    project.succeed("--cores", "2", "--config", "methods=[triplet]", "--", "results/mine/mine/table.md")
    assert "Triplet" in project.read("results/mine/mine/table.md")


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

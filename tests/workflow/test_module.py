"""Another workflow imports this one: from its own directory, with its own config, studies, datasets and folders."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from support.datasets.glyphs import make_glyphs
from support.project import DATASET, ROOT, Project, small_study
from support.project.small_net import __file__ as SMALL_NET

DOCS = (ROOT / "docs/module.md").read_text(encoding="utf-8")
SNAKEFILE, CONFIG = (re.search(rf"```{kind}\n(.*?)```", DOCS, re.DOTALL)[1] for kind in ("text", "yaml"))
ROWS = {"pretrained": yaml.safe_load(small_study())["methods"]["pretrained"]}


def importer(folder: Path, snakefile: str = SNAKEFILE, clone: Path = ROOT) -> Project:
    """The example of docs/module.md, with a study of one row on other images."""
    folder.mkdir()
    project = Project(folder)
    make_glyphs(folder / "photos", 8, 4)
    shutil.copy(SMALL_NET, folder)
    project.write("Snakefile", snakefile.replace("/path/to/recheck", str(clone)))
    project.write("config/config.yaml", CONFIG)
    project.write("config/datasets/photos.yaml", DATASET.replace("root: glyphs", "root: photos"))
    project.write("config/studies/mine.yaml", small_study(datasets={"photos": {}}, methods=ROWS))
    return project


@pytest.fixture
def elsewhere(tmp_path):
    return importer(tmp_path / "elsewhere")


def test_the_example_makes_its_table(elsewhere):
    """Imports `workflow/Snakefile`, which includes the one in the root."""
    elsewhere.edit("Snakefile", f"{ROOT}/Snakefile", f"{ROOT}/workflow/Snakefile")
    output = elsewhere.succeed("--cores", "2")
    assert "Pretrained" in elsewhere.read("summary.csv")
    assert "(Rule: recheck_train)" in output and "jobs done" not in output  # Snakemake's own messages
    made = {str(path.relative_to(elsewhere.folder)) for path in elsewhere.folder.rglob("*") if path.is_file()}
    run = "recheck/mine/photos/pretrained/seed0/fold0"
    assert {f"results/{run}/run.json", f"logs/{run}/train.log", "resources/datasets/photos/images.csv"} <= made
    assert not any(name.startswith(("results/mine", "logs/mine")) for name in made)
    assert elsewhere.planned() == {}
    # a setting of the importing workflow's study reruns what depends on it
    elsewhere.edit("config/studies/mine.yaml", "size: 32", "size: 31")
    assert elsewhere.planned()["recheck_train"] == 1


def test_targets_have_the_prefix_and_recheck_has_its_own_studies(elsewhere):
    planned = elsewhere.planned("recheck_mine")
    assert planned["recheck_page"] == planned["recheck_mine"] == 1
    planned = elsewhere.planned("recheck_quickstart")
    assert planned["recheck_train"] == 21 and planned["recheck_quickstart"] == 1
    # the importing workflow's files come first, and may have ours as their base
    elsewhere.write("config/studies/quickstart.yaml", "base: unbiased_tiny\nseeds: [0]\n")
    assert elsewhere.planned("recheck_quickstart")["recheck_train"] != 21


def test_published_numbers_of_both_directories_are_found(elsewhere):
    jobs = {"recheck_table", "recheck_page", "recheck_figure"}
    assert set(elsewhere.planned("recheck_mlrc_published")) > jobs - {"recheck_figure"}
    source = "documents:\n  - source: Mine\n    values: {photos: {pretrained: {separated: {MAP@R: 12.34}}}}\n"
    elsewhere.write("resources/published/mine.yaml", source)
    study = elsewhere.read("config/studies/mine.yaml")
    elsewhere.write("config/studies/mine.yaml", f"published: mine.yaml\n{study}")
    elsewhere.succeed("--cores", "1", "--", "results/recheck/mine_published/photos/table.md")
    assert "12.34" in elsewhere.read("results/recheck/mine_published/photos/table.md")


def test_without_rules_of_its_own_the_workflow_is_recheck(elsewhere):
    """As the Snakemake workflow catalog deploys it; single rules may be changed."""
    elsewhere.write(
        "Snakefile",
        f"""
        configfile: "config/config.yaml"
        module recheck:
            snakefile: "{ROOT}/Snakefile"
            config: config["recheck"]
        use rule * from recheck
        use rule train from recheck with:
            threads: 2
        """,
    )
    output = elsewhere.succeed("--dry-run", "--cores", "2", "--config", "other=1")
    assert re.search(r"^all +1$", output, re.MULTILINE), output
    assert re.search(r"^page +1$", output, re.MULTILINE), output
    elsewhere.edit("config/config.yaml", "device: cpu", "devices: cpu")
    assert "'devices'" in elsewhere.fail("--dry-run", "--cores", "1")


def test_a_hosted_repository_is_a_module_too(elsewhere, tmp_path, monkeypatch):
    """As deployed from the Snakemake workflow catalog, with a repository on this disk that stands in for GitHub's."""
    hosted = Project.create(tmp_path / "hosted", classes=1, per_class=1)
    hosted.write("config/studies/theirs.yaml", "base: mine\ntitle: Theirs\n")
    configuration = tmp_path / "gitconfig"
    configuration.write_text(f'[url "file://{hosted.folder}"]\n\tinsteadOf = https://github.com/me/recheck\n')
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(configuration))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    author = ["-c", "user.name=me", "-c", "user.email=me@example.org"]
    for command in (["init", "--quiet"], ["add", "."], [*author, "commit", "--quiet", "-m", "all"], ["tag", "v1"]):
        subprocess.run(["git", *command], cwd=hosted.folder, check=True)
    address = 'github("me/recheck", path="workflow/Snakefile", tag="v1")'
    elsewhere.edit("Snakefile", f'"{ROOT}/Snakefile"', address)
    shutil.rmtree(hosted.path("workflow/scripts"))  # only what was committed counts
    assert elsewhere.planned("recheck_theirs")["recheck_train"] == 1
    elsewhere.succeed("--cores", "1", "--", "resources/datasets/photos/images.csv")
    assert elsewhere.read("resources/datasets/photos/images.csv").count("\n") == 1 + 8 * 4


def test_a_prefix_is_refused_in_one_sentence(elsewhere):
    elsewhere.edit("Snakefile", "    pathvars:", '    prefix:\n        "sub"\n    pathvars:')
    assert "Use 'pathvars' instead" in elsewhere.fail("--dry-run", "--cores", "1")


def test_workflow_snakefile_plans_the_same_jobs(fresh):
    assert fresh.planned("--snakefile", "workflow/Snakefile") == fresh.planned()

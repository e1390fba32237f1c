"""What the Snakemake workflow catalog asks of workflows with standardised usage (its page “Adding workflows”)."""

import re

import yaml

from support.project import ROOT


def text(name):
    return (ROOT / name).read_text(encoding="utf-8")


def test_the_readme_has_the_words_that_the_catalog_searches_for():
    assert {"snakemake", "workflow"} <= set(re.findall(r"[a-z]+", text("README.md").lower()))


def test_the_main_workflow_and_its_rules_are_where_the_catalog_looks():
    assert 'include: "../Snakefile"' in text("workflow/Snakefile")
    assert list((ROOT / "workflow/rules").glob("*.smk"))
    assert not [path for path in (ROOT / "workflow/rules").iterdir() if path.suffix != ".smk"]


def test_instructions_for_the_configuration():
    assert text("config/README.md").startswith("# Configuration")
    assert (ROOT / "config/config.yaml").is_file()


def test_the_catalog_file_has_only_known_keys_and_says_what_works():
    content = yaml.safe_load(text(".snakemake-workflow-catalog.yml"))
    assert set(content) == {"usage"}
    usage = content["usage"]
    assert set(usage) == {"mandatory-flags", "software-stack-deployment", "report"}
    assert set(usage["mandatory-flags"]) == {"desc", "flags"}
    deployment = usage["software-stack-deployment"]
    assert set(deployment) <= {"conda", "apptainer", "apptainer+conda"} and all(deployment.values())
    assert usage["report"] is True  # test_dag.py makes a report
    rules = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "workflow/rules").glob("*.smk"))
    assert deployment["conda"] and rules.count("script:") == rules.count("conda:")
    assert deployment["apptainer+conda"] and "\ncontainerized:" in rules


def test_linting_and_formatting_are_part_of_make_test():
    lint = re.search(r"^lint:.*\n((?:\t.*\n)+)", text("Makefile"), re.MULTILINE)[1]
    assert "snakefmt --check Snakefile workflow" in lint and "snakemake --lint" in lint

"""The cost of typical changes: each is made in a copy of the project, and the changed files are counted."""

import csv
import json

import pytest

PACKAGE = "workflow/scripts/recheck"
FIGURE = '''
"""The number of rows: a minimal figure."""

from recheck.report.figures import Figure


class Rows(Figure):
    name = "rows"
    title = "Number of rows"
    caption = "The number of rows that were measured on {dataset}."
    place = 35
    needs = ("evaluations",)

    def draw(self, inputs, png, svg):
        from recheck.report.style import note

        return note(f"{inputs.summary['method'].nunique()} rows", png, svg)
'''


@pytest.fixture
def code(project):
    """The project, and a function that lists the code files that a test has changed or added."""
    before = {path: path.read_bytes() for path in sources(project)}
    yield project, lambda: [path.name for path in sources(project) if before.get(path) != path.read_bytes()]


def sources(project):
    return [
        path
        for path in sorted(project.path("workflow").rglob("*"))
        if path.is_file() and path.suffix in (".py", ".smk", ".yaml", ".rst", ".j2")
    ]


def test_a_new_figure_is_one_file(code):
    project, changed = code
    project.write(f"{PACKAGE}/report/figures/rows.py", FIGURE)
    assert set(project.planned()) == {"figure", "page", "all"}
    project.succeed("--cores", "2")
    assert "3 rows" in project.read("results/letters/figures/glyphs_rows.svg")
    page = project.read("results/letters/index.html")
    assert "Number of rows" in page and "rows that were measured on glyphs" in page
    assert changed() == ["rows.py"]


def test_a_new_view_is_at_most_three_files(code):
    project, changed = code
    project.edit(f"{PACKAGE}/names.py", '("concatenated", "separated")', '("concatenated", "separated", "first_fold")')
    line = "    chosen = {}"
    project.edit(
        f"{PACKAGE}/evaluation/views.py", line, f'    if view == "first_fold":\n        folds = folds[:1]\n{line}'
    )
    views = "views: [concatenated, first_fold]"
    project.edit("config/studies/letters.yaml", "seeds: [0]", f"seeds: [0]\n{views}")
    project.succeed("--cores", "2", "--", "results/letters/glyphs/table.md")
    result = json.loads(project.read("results/letters/glyphs/triplet/seed0/first_fold.json"))
    separated = json.loads(project.read("results/letters/glyphs/triplet/seed0/separated.json"))
    assert result["metrics"]["P@1"] == separated["folds"][0]["P@1"]
    assert "First fold 16-d P@1" in project.read("results/letters/glyphs/table.md").splitlines()[0]
    assert len(changed()) == 2


def test_a_new_column_is_at_most_two_files(code):
    project, changed = code
    column = (
        '    LastColumn("Views", lambda table: True, lambda part: str(part["view"].nunique()), lambda part: {}),\n]'
    )
    text = project.read(f"{PACKAGE}/report/tables/columns.py").rstrip()
    assert text.endswith("]")
    project.write(f"{PACKAGE}/report/tables/columns.py", text[:-1] + column + "\n")
    project.succeed("--cores", "2", "--forcerun", "table")
    lines = project.read("results/letters/glyphs/table.md").splitlines()
    assert lines[0].split("|")[-2].strip() == "Views" and lines[2].split("|")[-2].strip() == "2"
    assert ">Views</th>" in project.read("results/letters/index.html")
    assert "& Views" in project.read("results/letters/glyphs/table.tex")
    assert changed() == ["columns.py"]


def test_a_new_study_key_is_one_line_of_the_schema_and_its_reader(code):
    project, changed = code
    schema = project.read("workflow/schemas/study.schema.yaml")
    precision = next(line for line in schema.splitlines() if line.startswith("      precision:"))
    line = '      slowness: {description: "Factor of every learning rate.", type: number, used_by: [training]}'
    project.edit("workflow/schemas/study.schema.yaml", precision, f"{line}\n{precision}")
    rates = "        for group in optimiser.param_groups:\n"
    reader = 'build_optimisers(configuration["optimisers"], modules)'
    engine = f"{PACKAGE}/training/engine.py"
    project.edit(engine, reader, f'{reader}\n        slow(self.optimisers, configuration.get("slowness", 1))')
    body = f"def slow(optimisers, factor):\n    for optimiser in optimisers.values():\n{rates}            "
    project.edit(engine, "@dataclass\nclass Outcome:", f'{body}group["lr"] *= factor\n\n\n@dataclass\nclass Outcome:')
    assert project.planned() == {}, "an unused key changes nothing"
    project.edit("config/studies/letters.yaml", "label: Triplet\n", "label: Triplet\n    slowness: 0.0\n")
    assert project.planned()["train"] == 2
    run = "results/letters/glyphs/triplet/seed0/fold0"
    before = [[row[name] for name in ("loss", "val_MAP@R")] for row in history(project, run)]
    project.succeed("--cores", "2", "--", f"{run}/run.json")
    assert json.loads(project.read(f"{run}/run.json"))["configuration"]["slowness"] == 0
    after = [[row[name] for name in ("loss", "val_MAP@R")] for row in history(project, run)]
    assert after[0] == before[0] and after[1:] != before[1:], "the same start, but different steps"
    assert changed() == ["study.schema.yaml", "engine.py"]


def history(project, run):
    return list(csv.DictReader(project.read(f"{run}/history.csv").splitlines()))

"""The toy experiment with points in a plane, from the command line."""

import re

import pytest

from support.project import Project

TOY = "config/toys/contextual_toy.yaml"


@pytest.fixture(scope="module")
def made(shared):
    return shared("toy", make)


def make(folder):
    project = Project.create(folder, classes=2, per_class=2)
    project.edit(TOY, "steps: 20000", "steps: 40")
    project.edit(TOY, "points: 500", "points: 20")
    project.succeed("--cores", "2", "contextual_toy")
    return project


def test_page_and_pictures_exist(made):
    page = made.read("results/contextual_toy/index.html")
    assert page.count("<img") == 3
    assert len(re.findall(r'<th scope="row">(?:Contrastive|Neighbourhood)</th>', page)) == 2
    for picture in ("data", "losses", "embeddings"):
        for kind in ("png", "svg"):
            assert made.path(f"results/contextual_toy/figures/{picture}.{kind}").stat().st_size > 1000
    assert made.planned("contextual_toy") == {}


def test_only_changed_outputs_are_rebuilt(made, tmp_path):
    labelled = made.copy(tmp_path / "label")
    labelled.edit(TOY, "label: Contrastive", "label: Pairs")
    assert labelled.planned("contextual_toy") == {"toy_figure": 3, "toy_page": 1, "contextual_toy": 1}
    labelled.edit(TOY, "lr: 4e-5", "lr: 5e-5")
    assert labelled.planned("contextual_toy")["toy"] == 1


def test_mistakes_are_reported_on_one_line(made, tmp_path):
    broken = made.copy(tmp_path / "broken")
    assert "did you mean 'contextual_toy'" in broken.fail("--cores", "1", "contextual_toi")
    broken.edit(TOY, "weight_decay: 1e-5", "decay: 1e-5")
    assert "unknown key 'decay' in 'experiments.contrastive'" in broken.fail("--cores", "1", "contextual_toy")

"""Each oddity in a study or its images gives one warning with a count, and stops nothing."""

import re

import pytest
from PIL import Image

from support.project import Project

ROW = "\n  again: {label: Triplet, loss: {class: TripletMarginLoss, margin: 0.2}}\n"
RUN = "results/letters/glyphs/{}/seed0/fold0/model.safetensors"
SENTENCES = {
    "labels": "letters.yaml: the rows triplet, again have the same label 'Triplet', so tables and figures do not tell",
    "files": r"glyphs: skipped 3 entries \(notes.txt, A/deeper, A/list.csv\), because only images directly inside",
    "pixels": r"Images only 1 pixel high or wide, which may be placeholders: 1 of 61 \(the first is glyphs/A/dot.png\)",
    "crops": r"'transforms.eval' crops 70 pixels and pads smaller images with black: 61 of 61\. 'transforms.resize",
}


@pytest.fixture(scope="module")
def output(tmp_path_factory):
    project = Project.create(tmp_path_factory.mktemp("once") / "project")
    project.write("glyphs/notes.txt", "")
    project.write("glyphs/A/list.csv", "")
    project.path("glyphs/A/deeper").mkdir()
    project.write("glyphs/A/.hidden", "")
    Image.new("RGB", (9, 1)).save(project.path("glyphs/A/dot.png"))
    project.edit("config/studies/letters.yaml", "center_crop: {size: 32}", "center_crop: {size: 70}")
    project.write("config/studies/letters.yaml", project.read("config/studies/letters.yaml").rstrip() + ROW)
    return project.succeed("--cores", "2", *(RUN.format(row) for row in ("triplet", "again")))


@pytest.mark.parametrize("kind", SENTENCES)
def test_each_warning_appears_once(output, kind):
    assert len(re.findall(SENTENCES[kind], output)) == 1, output

"""A bug in a user's own code ends with the file, the line and the shapes; the table's other rows are not affected."""

import pytest

from support.project import Project

CODE = """
import torch


class Loss(torch.nn.Module):
    def forward(self, embeddings, labels):
        return (embeddings @ labels).mean()


class Signature(torch.nn.Module):
    def forward(self, embeddings):
        return embeddings.mean()


class Sampler:
    def __init__(self, labels, batch):
        self.labels, self.batch = labels, batch

    def draw(self, generator):
        return [[self.labels[self.batch * len(self.labels)]]]


class Net(torch.nn.Module):
    num_features, mean, std = 4, (127.0,) * 3, (128.0,) * 3

    def forward(self, images):
        return images.mean((2, 3)) @ torch.ones(4, 4)
"""
ROWS = """  loss: {label: Loss, loss: {class: "mine:Loss"}}
  signature: {label: Signature, loss: {class: "mine:Signature"}}
  sampler: {label: Sampler, loss: {class: TripletMarginLoss}, sampler: {class: "mine:Sampler", batch: 8}}
  net: {label: Net, loss: {class: TripletMarginLoss}, model: {backbone: {name: "mine:Net", weights: none}}}
"""
SENTENCES = {
    "loss": "mine.py, line 7, in forward (loss 'mine:Loss'): RuntimeError: ",
    "signature": "mine.py, line 11 (loss 'mine:Signature'): TypeError: Signature.forward() takes 2 positional",
    "sampler": "mine.py, line 20, in draw (sampler 'mine:Sampler'): IndexError: ",
    "net": "mine.py, line 27, in forward (backbone 'mine:Net'): RuntimeError: mat1 and mat2 shapes",
}


@pytest.fixture(scope="module")
def output(finished, tmp_path_factory):
    project = finished.copy(tmp_path_factory.mktemp("own") / "project")
    project.write("mine.py", CODE)
    project.write("config/studies/letters.yaml", project.read("config/studies/letters.yaml").rstrip() + "\n" + ROWS)
    targets = [f"results/letters/glyphs/{row}/seed0/fold0/model.safetensors" for row in SENTENCES]
    return project.fail("--cores", "2", "--keep-going", *targets)


@pytest.mark.parametrize("row", SENTENCES)
def test_the_message_names_the_file_the_line_and_the_class(output, row):
    assert f"study 'letters', dataset 'glyphs', method '{row}': {SENTENCES[row]}" in output


def test_shapes_are_shown_and_recheck_is_not_blamed(output):
    assert "It was called with embeddings = float32 of shape (8, 16), labels = int64 of shape (8,)." in output
    assert "images = float32 of shape (8, 3, 32, 32)" in output
    assert "bug in Recheck" not in output and "Traceback" not in output


def test_more_principal_components_than_test_images(tmp_path):
    """Reported when the images are split, before anything is trained."""
    project = Project.create(tmp_path / "project", classes=8, per_class=2)
    output = project.fail("--cores", "1", "--keep-going")
    assert (
        "row 'pretrained': 'reduction.dims' asks for 16 principal components, but dataset 'glyphs' has only 8 test "
        "images. Set every value of 'reduction.dims' to at most 8, or remove the row."
    ) in output
    assert not project.path("results").exists() or not list(project.path("results").rglob("*.*"))
    project.edit(
        "config/studies/letters.yaml", "dims: {separated: 8, concatenated: 16}", "dims: {separated: 8, concatenated: 8}"
    )
    project.succeed("--cores", "1", "results/letters/glyphs/split.json")
    project.edit("config/studies/letters.yaml", "concatenated: 8}", "concatenated: 9}")
    assert "asks for 9 principal components" in project.succeed("--cores", "1", "--dry-run")

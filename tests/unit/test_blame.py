"""An error in a user's own code is reported with its file, line and shapes; an error in Recheck stays a bug."""

import re
import textwrap

import numpy as np
import pytest
import torch

from recheck.blame import check_class, user_code
from recheck.data.index import make_index
from recheck.errors import UserError
from recheck.evaluation.metrics import evaluate
from recheck.methods.losses import build_loss, build_miner, compute_loss
from recheck.methods.losses.unbiased.scaled import ScaledLoss
from recheck.methods.samplers import build_sampler
from recheck.models.embedding import EmbeddingModel
from recheck.report.figures import all_figures

EMBEDDINGS, LABELS = torch.randn(6, 4, requires_grad=True), torch.tensor([0, 0, 1, 1, 2, 2])
TRIPLET = {"class": "TripletMarginLoss"}
LOSS = """
import torch


class Loss(torch.nn.Module):
    def forward(self, {arguments}):
        {body}
"""


@pytest.fixture
def write(tmp_path, monkeypatch):
    """Write a module of a user, under a new name each time, and return the name."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)

    def writer(text):
        name = f"mine_{tmp_path.name}".replace("-", "_")
        (tmp_path / f"{name}.py").write_text(textwrap.dedent(text), encoding="utf-8")
        return name

    return writer


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        (
            "return (embeddings @ embeddings).mean()",
            r"^mine_\w+\.py, line 7, in forward \(loss 'mine_\w+:Loss'\): RuntimeError: mat1 and mat2 shapes cannot be "
            r"multiplied \(6x4 and 6x4\)\. It was called with embeddings = float32 of shape \(6, 4\), labels = int64 "
            r"of shape \(6,\)\. Correct the file and run the same command again\.$",
        ),
        (
            "return embeddings.sum(1)",
            r"^mine_\w+\.py, line 6: the loss 'mine_\w+:Loss' returned float32 of shape \(6,\)\. It must return one",
        ),
        ("return {'loss': embeddings.mean()}", "returned a dict with the keys loss. It must return one number"),
        ("embeddings.mean()", "returned None. It must return one number"),
        ("return embeddings.mean().item()", r"returned float -?\d\S+. It must return one number"),
        ("return embeddings.detach().mean()", r"this one has no gradient: remove detach\(\)"),
        ("return [embeddings.mean()] * 6", r"returned a list of 6 \(float32 of shape \(\); .*, …\)"),
    ],
)
def test_a_loss(write, body, sentence):
    loss = build_loss({"class": f"{write(LOSS.format(arguments='embeddings, labels', body=body))}:Loss"}, 3, 4)
    with pytest.raises(UserError, match=sentence) as raised:
        compute_loss(loss, None, EMBEDDINGS, LABELS)
    assert "\n" not in str(raised.value)


def test_a_wrong_signature(write):
    loss = build_loss(
        {"class": f"{write(LOSS.format(arguments='embeddings', body='return embeddings.mean()'))}:Loss"}, 3, 4
    )
    sentence = (
        r"^mine_\w+.py, line 6 \(loss 'mine_\w+:Loss'\): TypeError: Loss.forward\(\) takes 2 positional arguments but 3"
    )
    with pytest.raises(UserError, match=sentence):
        compute_loss(loss, None, EMBEDDINGS, LABELS)


@pytest.mark.parametrize(
    ("init", "sentence"),
    [
        ("raise KeyError('scale')", r"mine_\w+.py, line 7, in __init__ \(loss 'mine_\w+:Loss'\): KeyError: 'scale'"),
        (
            "assert False, 'odd'",
            r"Cannot build loss 'mine_\w+:Loss' with arguments {}: mine_\w+.py, line 7, in __init__",
        ),
        (
            "self.a = torch.nn.Linear(1, 1)",
            r"line 7, in __init__ .*cannot assign module before Module.__init__\(\) call",
        ),
    ],
)
def test_a_class_that_cannot_be_built(write, init, sentence):
    name = write(
        LOSS.format(arguments="*a", body="pass").replace("forward(self, *a)", "__init__(self)").replace("pass", init)
    )
    with pytest.raises(UserError, match=sentence):
        build_loss({"class": f"{name}:Loss"}, 3, 4)


def test_a_missing_argument(write):
    name = write(LOSS.format(arguments="*a", body="pass").replace("forward(self, *a)", "__init__(self, alpha)"))
    sentence = (
        rf"^The loss '{name}:Loss' needs the argument 'alpha': add it to the settings of the loss in the study, or"
    )
    with pytest.raises(UserError, match=sentence):
        build_loss({"class": f"{name}:Loss"}, 3, 4)


def test_a_function_in_place_of_a_class(write):
    name = write("def loss(embeddings, labels):\n    return embeddings.mean()\n")
    with pytest.raises(
        UserError, match=rf"^{name}\.py, line 1: the loss '{name}:loss' is a function\. It must be a cl"
    ):
        build_loss({"class": f"{name}:loss"}, 3, 4)


def test_a_class_that_is_no_module(write):
    with pytest.raises(UserError, match=r"must be a class derived from torch\.nn\.Module, found Loss: derive it"):
        build_loss({"class": f"{write('class Loss: pass')}:Loss"}, 3, 4)


@pytest.mark.parametrize(
    ("text", "line"),
    [("import torch\nfrom torch import nothing\n", 2), ("import no_such_module\n", 1), ("class (:\n", 1)],
)
def test_a_module_that_cannot_be_imported(write, text, line):
    name = write(text)
    with pytest.raises(UserError, match=rf"^Cannot import loss '{name}:Loss': {name}\.py, line {line}"):
        build_loss({"class": f"{name}:Loss"}, 3, 4)


def test_a_syntax_error_is_found_without_importing(write):
    name = write("import torch\n\nclass Loss(:\n    pass\n")
    sentence = rf"^a.yaml: 'loss' is '{name}:Loss', but {name}\.py, line 3 is not valid Python: invalid syntax\.$"
    with pytest.raises(UserError, match=sentence):
        check_class(f"{name}:Loss", "a.yaml", "loss")


def test_a_miner_and_the_losses_of_a_library(write):
    name = write(
        LOSS.format(arguments="embeddings, labels", body="return embeddings.argmax(1)").replace("Loss", "Miner")
    )
    miner = build_miner({"class": f"{name}:Miner"})
    with pytest.raises(
        UserError, match=r"the miner 'mine_\w+:Miner' returned int64 of shape \(6,\)\. It must return a tuple"
    ):
        compute_loss(build_loss(TRIPLET, 3, 4), miner, EMBEDDINGS, LABELS)
    with pytest.raises(
        UserError, match=r"^The loss 'TripletMarginLoss' of pytorch_metric_learning failed: .* labels = float32"
    ):
        compute_loss(build_loss(TRIPLET, 3, 4), None, EMBEDDINGS, torch.randn(3))


def test_a_miner_with_positions_outside_the_batch(write):
    body = "return torch.tensor([0]), torch.tensor([1]), torch.tensor([9])"
    name = write(LOSS.format(arguments="embeddings, labels", body=body).replace("Loss", "Miner"))
    sentence = (
        r"^mine_\w+\.py, line 6: the miner 'mine_\w+:Miner' returned positions from 0 to 9\. It must .* 0 to 5\.$"
    )
    with pytest.raises(UserError, match=sentence):
        compute_loss(build_loss(TRIPLET, 3, 4), build_miner({"class": f"{name}:Miner"}), EMBEDDINGS, LABELS)


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        (
            "return generator.permutation(6)",
            "returned int64 of shape (6,). It must return a list of batches, each a list",
        ),
        ("return [[0, 1], [5, 6]]", "It must return a list of batches, each a list of positions from 0 to 5."),
        ("return []", "line 8: the sampler 'mine_"),
        ("return []", "returned an empty list. It must return at least one batch."),
        ("return [[0.5]]", "It must return a list of batches"),
        ("return [self.labels[9]]", "line 9, in draw (sampler 'mine_"),
    ],
)
def test_a_sampler(write, body, sentence):
    text = f"""
    class Sampler:
        def __init__(self, labels, batch):
            self.labels = labels

        def other(self): pass

        def draw(self, generator):
            {body}
    """
    with pytest.raises(UserError, match=re.escape(sentence)):
        build_sampler({"class": f"{write(text)}:Sampler", "batch": 2}, np.arange(6))


NETWORK = """
import torch


def network(fault=""):
    made = torch.nn.Sequential(torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten())
    made.num_features, made.mean, made.std = 3 + (fault == "wide"), (127,) * 3, (128,) * 3
    if fault == "bare":
        del made.mean
    return None if fault == "none" else made


class Head(torch.nn.Linear):
    def __init__(self, features, dim):
        super().__init__(features + 1, dim)
"""


@pytest.mark.parametrize(
    ("fault", "head", "sentence"),
    [
        (
            "wide",
            {"class": "Identity"},
            "backbone '{0}:network' returned float32 of shape (2, 3). It must return features",
        ),
        ("bare", {"class": "Identity"}, "line 5: the backbone '{0}:network' returned a network without mean. It must"),
        (
            "none",
            {"class": "Identity"},
            "line 5: the backbone '{0}:network' returned None. It must return a torch.nn.Module",
        ),
        (
            "",
            {"class": "{0}:Head", "dim": 2},
            "(head '{0}:Head'): RuntimeError: mat1 and mat2 shapes cannot be multiplied",
        ),
    ],
)
def test_a_network(write, fault, head, sentence):
    name = write(NETWORK)
    head = {**head, "class": head["class"].format(name)}
    spec = {"backbone": {"name": f"{name}:network", "weights": "none", "options": {"fault": fault}}, "head": head}
    with pytest.raises(UserError, match=re.escape(sentence.format(name))):
        EmbeddingModel(spec)(torch.zeros(2, 3, 8, 8, dtype=torch.uint8))


def test_a_parser(write, tmp_path):
    name = write("def parse(dataset, downloads, images):\n    return dataset['colour']\n")
    with pytest.raises(UserError, match=rf"^{name}.py, line 2, in parse \(parser '{name}:parse'\): KeyError: 'colour'"):
        make_index({"name": "mine", "parser": f"{name}:parse"}, tmp_path, tmp_path)


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        ("return labels[99]", "line 2, in mine (metric '{0}:mine'): IndexError: "),
        (
            "return embeddings.mean(0)",
            "line 1: the metric '{0}:mine' returned float32 of shape (4,). It must return",
        ),
        ("return float('nan')", "the metric '{0}:mine' returned float nan. It must return one finite number"),
    ],
)
def test_a_metric(write, body, sentence):
    name = write(f"def mine(embeddings, labels):\n    {body}\n")
    with pytest.raises(UserError, match=re.escape(sentence.format(name))):
        evaluate(EMBEDDINGS.detach().numpy(), LABELS.numpy(), [f"{name}:mine"])


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        ("name = 'recall'", "does not define title, caption, place, needs. Add them."),
        (
            "name = title = caption = 'recall'; place = 1",
            "'name' of the figure '{0}:Mine' is 'recall'. It must",
        ),
    ],
)
def test_a_figure(write, body, sentence):
    needs = "needs = ()\n    " if "place" in body else ""
    name = write(f"from recheck.report.figures import Figure\n\n\nclass Mine(Figure):\n    {needs}{body}\n")
    with pytest.raises(UserError, match=re.escape(sentence.format(name))):
        all_figures((f"{name}:Mine",))


@pytest.mark.parametrize(
    ("text", "described"),
    [("class Mine(dict): pass", "a class derived from dict"), ("def Mine(): pass", "a function")],
)
def test_something_that_is_no_figure(write, text, described):
    with pytest.raises(UserError, match=rf"must be a class derived from recheck\..*\.Figure, found {described}: "):
        all_figures((f"{write(text)}:Mine",))


def test_errors_of_recheck_and_of_the_machine_are_not_blamed_on_the_user():
    """Only errors that pass through Recheck's own files are raised here."""
    with pytest.raises(TypeError), user_code("loss", ScaledLoss):
        ScaledLoss(nothing=1)
    with pytest.raises(torch.OutOfMemoryError), user_code("loss", torch.nn.Linear):
        raise torch.OutOfMemoryError("CUDA out of memory.")

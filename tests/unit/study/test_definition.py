"""A row with a method's label is that method: what defines it can't be lost between papers and protocols."""

import pytest

from recheck.errors import UserError
from recheck.study.compose import compose
from recheck.study.definition import changed, definition
from recheck.study.yaml import read_yaml
from support.project.studies import FILES, own_study, shipped

# Three papers, with a study that reproduces each.
PAPERS = {
    "contrastive_within_pair": ("mlrc", "cub200"),
    "norm_proxy": ("unbiased", "cub200"),
    "hybrid": ("contextual_256", "cub200"),
}
FIVE_LINES = """\
base: quickstart
keep: []
title: Three papers, one protocol
methods: {contrastive_within_pair: , norm_proxy: , hybrid: }
"""


def method(name):
    return read_yaml(FILES.methods[name])


def test_three_papers_under_one_protocol_keep_what_defines_them(tmp_path):
    study = own_study(tmp_path, FIVE_LINES)
    protocol = study.protocols["emoji"]
    for row, (paper, dataset) in PAPERS.items():
        ours, theirs = study.run("emoji", row).settings, shipped(paper).run(dataset, row).settings
        for key in ("forward", "relabel", "miner"):
            assert ours.get(key) == theirs.get(key), (row, key)
        assert ours["loss"]["class"] == theirs["loss"]["class"]
        assert ours["model"].get("channel_dropout") == theirs["model"].get("channel_dropout")
        for key in ("backbone", "batch_norm"):
            assert ours["model"][key] == protocol["model"][key], "the protocol decides this"
    assert study.run("emoji", "contrastive_within_pair").settings["model"]["channel_dropout"] == 0.1
    assert study.run("emoji", "norm_proxy").settings["model"]["head"]["class"] == "NormProxyHead"


@pytest.mark.parametrize("name", FILES.studies)
def test_rows_of_the_shipped_studies_are_the_methods_they_name(name):
    for variant in ["recommended", *compose(name, FILES)["variants"]]:
        study = shipped(name, variant=variant)
        for row in study.rows.values():
            for runs in study.runs.values():
                assert row.defined is None or changed(row.defined, runs[row.name].settings) is None


def test_what_defines_a_method():
    assert definition(method("ms_miner"))["miner.class"] == "MultiSimilarityMiner"
    assert definition(method("ms"))["miner.class"] is None
    assert definition(method("contrastive_cosine"))["loss.distance.class"] == "CosineSimilarity"
    assert definition(method("npair"))["sampler.class"] == "Pairs"
    assert "sampler.class" not in definition(method("ms")), "the protocol decides this"


@pytest.mark.parametrize(
    ("row", "change", "message"),
    [
        (
            "contrastive_within_pair",
            "model: {channel_dropout: 0}",
            "'model.channel_dropout' is none, but it is some in",
        ),
        ("contrastive_within_pair", "loss: {loss: {class: MultiSimilarityLoss}}", "'loss.loss.class' is MultiSim"),
        (
            "norm_proxy",
            "model: {head: {class: Linear, dim: 64}}",
            "'model.head.class' is Linear, but it is NormProxyHead",
        ),
        ("hybrid", "miner: {class: MultiSimilarityMiner}", "'miner.class' is MultiSimilarityMiner, but it is none in"),
        ("npair", "sampler: {class: Shuffled}", "'sampler.class' is Shuffled, but it is Pairs in method 'npair'"),
        ("npair", "forward: {class: Single}", "'forward.class' is Single, but it is InTurns"),
    ],
)
def test_a_row_that_is_another_method_needs_another_label(tmp_path, row, change, message):
    text = f"base: quickstart\nkeep: []\ntitle: Mine\nmethods:\n  {row}: {{{change}}}\n"
    with pytest.raises(UserError) as error:
        own_study(tmp_path, text)
    assert message in str(error.value)
    assert "must have its own 'label'" in str(error.value)
    own_study(tmp_path, text.replace(f"{{{change}", f"{{label: Mine, {change}"))


def test_a_protocol_can_not_give_a_miner_to_methods_without_one(tmp_path):
    text = "base: quickstart\ntitle: Mine\nkeep: [triplet]\nprotocol: {miner: {class: TripletMarginMiner}}\n"
    with pytest.raises(
        UserError, match=r"row 'triplet': 'miner\.class' is TripletMarginMiner, but it is none in method"
    ):
        own_study(tmp_path, text)


def test_a_label_of_the_base_does_not_cover_another_method(tmp_path):
    text = "base: contextual_224\ntitle: Mine\npublished:\nkeep: [roadmap]\nmethods:\n  roadmap: {CHANGE}\n"
    own_study(tmp_path, text.replace("CHANGE", "loss: {weight: 0.2}"))
    with pytest.raises(UserError, match=r"row 'roadmap' changes 'miner\.class' but keeps the label 'Roadmap \+ regul"):
        own_study(tmp_path, text.replace("CHANGE", "miner: {class: MultiSimilarityMiner}"))
    own_study(tmp_path, text.replace("CHANGE", "label: Mined, miner: {class: MultiSimilarityMiner}"))

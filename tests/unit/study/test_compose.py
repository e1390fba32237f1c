"""Composing studies from bases, method files, variants and sweeps, and the errors for mistakes in them."""

import copy

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from recheck.errors import UserError
from recheck.study import schema
from recheck.study.compose import Files, compose, merge, top_level
from recheck.study.yaml import names_in
from support.project import ROOT

STUDIES = names_in([ROOT / "config/studies"])
METHODS = names_in([ROOT / "config/methods"])
FILES = Files(STUDIES, METHODS)


@pytest.fixture
def write(tmp_path):
    """Add studies or methods to the shipped ones: `write(mine="base: …")`, `write("methods", mine={…})`."""
    files = {"studies": dict(STUDIES), "methods": dict(METHODS)}

    def write(kind="studies", **texts):
        for name, text in texts.items():
            path = tmp_path / f"{name}.{kind}.yaml"
            path.write_text(text if isinstance(text, str) else yaml.safe_dump(text, sort_keys=False), encoding="utf-8")
            files[kind][name] = path
        return Files(**files)

    return write


def mine(write, text, variant=None):
    return compose("mine", write(mine=text), variant)


def quickstart(old, new):
    text = STUDIES["quickstart"].read_text(encoding="utf-8")
    assert old in text, "the change does not apply"
    return text.replace(old, new, 1)


# --- merge -----------------------------------------------------------------------------------------------------------


def test_another_class_or_scheme_replaces_the_whole_part():
    assert merge({"class": "Adam", "lr": 1, "betas": 2}, {"class": "SGD", "lr": 3}) == {"class": "SGD", "lr": 3}
    assert merge({"class": "Adam", "lr": 1}, {"lr": 3}) == {"class": "Adam", "lr": 3}
    assert merge({"scheme": "a", "folds": 4}, {"scheme": "b"}) == {"scheme": "b"}


NESTED = st.recursive(
    st.integers() | st.text(max_size=3),
    lambda inner: st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=8,
)


@given(NESTED, NESTED)
def test_merge_does_not_change_its_inputs_and_the_second_wins(base, over):
    kept = copy.deepcopy((base, over))
    merged = merge(base, over)
    assert (base, over) == kept
    assert merge(merged, over) == merged
    assert merge({}, over) == over


# --- complete studies ------------------------------------------------------------------------------------------------


def test_a_study_has_every_key(write):
    study = compose("quickstart", FILES)
    assert study["name"] == "quickstart" and study["variant"] == "recommended"
    assert study["also_build"] == [] and study["variants"] == {}
    assert study["published"] is study["baseline"] is study["sweep"] is None
    assert not {"base", "keep"} & set(compose("mlrc_tiny", FILES))
    text = quickstart("views: [concatenated, separated]\n", "").replace(
        "  emoji:\n    classes: {every: 4}\n", "  emoji:\n"
    )
    assert mine(write, text)["views"] == ["concatenated", "separated"]
    assert mine(write, text)["datasets"] == {"emoji": {}}


def test_a_row_is_the_method_of_the_same_name_with_its_own_settings():
    rows = compose("quickstart", FILES)["methods"]
    assert list(rows) == ["pretrained", "contrastive", "triplet", "multi_similarity", "proxy_nca", "arcface"]
    assert rows["triplet"]["loss"] == {"class": "TripletMarginLoss", "margin": 0.1}
    assert rows["triplet"]["method"] == "triplet" and rows["triplet"]["family"] == "triplets"
    assert rows["arcface"]["paper"]["title"].startswith("ArcFace") and "paper" not in rows["pretrained"]
    assert rows["multi_similarity"]["label"] == "MS + miner" and rows["multi_similarity"]["method"] == "ms_miner"
    assert rows["multi_similarity"]["paper"]["title"].startswith("Multi-Similarity Loss")


def test_a_row_with_its_own_loss_inherits_nothing_from_a_method_of_the_same_name(write):
    row = {"label": "Mine", "loss": {"class": "ContrastiveLoss"}}
    study = mine(write, {"base": "quickstart", "methods": {"angular": row}})
    assert study["methods"]["angular"] == row
    study = mine(write, {"base": "quickstart", "methods": {"triplet": row}})
    assert study["methods"]["triplet"] == row, "not from the base's row either, which has another method"
    study = mine(write, {"base": "contextual_256", "methods": {"triplet": row}})
    assert study["methods"]["triplet"] == row, "not its miner either"
    with pytest.raises(UserError, match="row 'angular' has its own loss, so it needs a 'label'"):
        mine(write, {"base": "quickstart", "methods": {"angular": {"loss": {"class": "ContrastiveLoss"}}}})


def test_a_row_with_its_own_loss_is_merged_key_by_key_in_derived_studies(write):
    first = {"base": "quickstart", "methods": {"own": {"label": "Own", "loss": {"class": "TripletMarginLoss"}}}}
    files = write(first=first, second={"base": "first", "methods": {"own": {"loss": {"margin": 0.3}}}})
    row = compose("second", files)["methods"]["own"]
    assert row == {"label": "Own", "loss": {"class": "TripletMarginLoss", "margin": 0.3}}


def test_a_row_with_another_method_replaces_the_base_row(write):
    study = mine(write, {"base": "quickstart", "methods": {"arcface": {"method": "cosface"}}})
    assert study["methods"]["arcface"]["loss"] == {"class": "CosFaceLoss", "margin": 0.35, "scale": 64}
    assert "sampler" not in study["methods"]["arcface"]
    study = mine(write, {"base": "quickstart", "methods": {"arcface": {"method": "arcface", "label": "A"}}})
    assert study["methods"]["arcface"]["loss"] == {"class": "ArcFaceLoss", "margin": 20.0, "scale": 32.0}


def test_released_checkpoints_have_a_methods_label_and_paper_but_the_protocols_settings():
    for name, row in compose("mlrc_released", FILES)["methods"].items():
        assert row["method"] == row["compare_to"] == name.removesuffix("_released")
        assert row["label"].endswith("+ within-pair")
        assert not {"loss", "forward", "model"} & set(row)


def test_three_methods_of_three_papers_under_one_protocol(write):
    text = """\
base: quickstart
title: Three papers
keep: []
methods: {angular: , contrastive_within_pair: , proxy_anchor: }
"""
    study = mine(write, text)
    rows, theirs = study["methods"], compose("unbiased", FILES)["methods"]["angular"]
    assert list(rows) == ["angular", "contrastive_within_pair", "proxy_anchor"]
    assert [row["label"] for row in rows.values()] == ["Angular", "Contrastive + within-pair", "Proxy-Anchor"]
    assert {key: rows["angular"][key] for key in ("loss", "forward")} == {
        key: theirs[key] for key in ("loss", "forward")
    }
    assert rows["angular"]["sampler"] == {"class": "Pairs", "batches": 200, "same_image": 0.1}
    assert not {"transforms", "schedule", "lr_schedule", "optimisers"} & set(rows["angular"])
    assert rows["contrastive_within_pair"]["model"] == {"channel_dropout": 0.1}
    assert rows["contrastive_within_pair"]["forward"]["class"] == "MultiView"
    assert rows["angular"]["paper"]["year"] == 2017 and rows["proxy_anchor"]["paper"]["year"] == 2020
    assert study["protocol"] == compose("quickstart", FILES)["protocol"]


def test_rows_inherit_the_modules_of_their_method(write):
    model = {"projector": {"class": "LinearProjector", "dim": 64}, "pooling": {"class": "Max"}, "channel_dropout": 0.2}
    write("methods", new={"label": "New", "family": "pairs", "loss": {"class": "ContrastiveLoss"}, "model": model})
    row = mine(write, {"base": "quickstart", "methods": {"new": None}})["methods"]["new"]
    assert row["model"] == model and row["label"] == "New"
    row = mine(write, {"base": "quickstart", "methods": {"new": {"model": {"pooling": {"class": "GeM"}}}}})
    assert row["methods"]["new"]["model"] == {**model, "pooling": {"class": "GeM"}}


def test_rows_inherit_heads_and_members_from_their_method():
    rows = compose("unbiased", FILES)["methods"]
    assert rows["facility_location"]["model"]["head"] == {"bias": False, "normalise": 1e-10}
    assert rows["facility_location"]["datasets"]["sop"] == {"sampler": {"batch": 120, "batches": 497}}
    assert rows["dreml"]["members"] == 48 and rows["dreml"]["label"] == "DREML (48 members)"
    assert compose("unbiased_tiny", FILES)["methods"]["dreml"]["members"] == 3


# --- base ------------------------------------------------------------------------------------------------------------


def test_a_base_is_merged_in_protocol_and_methods_and_replaced_elsewhere(write):
    study = compose("quickstart", FILES)
    files = write(
        small="base: quickstart\ntitle: Small\nseeds: [7]\ndatasets: {emoji: {classes: {first: 40}}}\n"
        "protocol: {sampler: {batch: 8}, transforms: {eval: [{center_crop: {size: 32}}]}}\n"
        "methods: {triplet: {loss: {margin: 0.7}}, other: {label: Other, loss: {class: TripletMarginLoss}}}\n"
    )
    small = compose("small", files)
    assert small["title"] == "Small" and small["seeds"] == [7] and small["name"] == "small"
    assert list(small["methods"]) == [*study["methods"], "other"]
    assert small["methods"]["triplet"]["loss"] == {"class": "TripletMarginLoss", "margin": 0.7}
    assert small["methods"]["arcface"] == study["methods"]["arcface"]
    assert small["datasets"] == {"emoji": {"classes": {"first": 40}}}, "classes are replaced, not merged"
    assert small["protocol"]["sampler"] == {**study["protocol"]["sampler"], "batch": 8}
    assert small["protocol"]["transforms"]["eval"] == [{"center_crop": {"size": 32}}]
    assert small["protocol"]["transforms"]["train"] == study["protocol"]["transforms"]["train"]
    files = write(deeper="base: small\nseeds: [8]\n")
    assert compose("deeper", files) == {**small, "name": "deeper", "seeds": [8], "title": ""}
    fewer = compose("deeper", write(deeper="base: small\nmethods: {other: }\n"))
    assert fewer["seeds"] == [7] and list(fewer["methods"]) == list(study["methods"]), "an emptied row is left out"
    with pytest.raises(UserError, match="'base' is circular: "):
        compose("deeper", write(small="base: deeper\n"))


def test_a_dataset_inherits_the_base_settings(write):
    study = mine(write, "base: contextual_224\ndatasets: {cub200: {schedule: {epochs: 2}}, cars196: }\n")
    base = compose("contextual_224", FILES)["datasets"]
    assert list(study["datasets"]) == ["cub200", "cars196"], "datasets that are not named are dropped"
    assert study["datasets"]["cars196"] == base["cars196"]
    assert study["datasets"]["cub200"] == {**base["cub200"], "schedule": {"epochs": 2, "evaluate_every": 10}}
    assert mine(write, "base: contextual_224\n")["datasets"] == base


def test_keep_selects_rows_of_the_base(write):
    assert list(mine(write, "base: quickstart\nkeep: [arcface, triplet]\n")["methods"]) == ["triplet", "arcface"]
    added = mine(write, "base: quickstart\nkeep: []\nmethods: {triplet: {loss: {margin: 0.9}}, ms: }\n")["methods"]
    assert list(added) == ["triplet", "ms"]
    assert mine(write, "base: quickstart\nkeep: []\nmethods: {arcface: }\n")["methods"]["arcface"]["loss"] == {
        "class": "ArcFaceLoss"
    }, "a row that was not kept starts from its method"
    with pytest.raises(UserError, match="'keep': the base has no row 'tripplet'; did you mean 'triplet'"):
        mine(write, "base: quickstart\nkeep: [tripplet]\n")
    with pytest.raises(UserError, match="'keep' selects rows of the base, but 'base' is missing"):
        mine(write, quickstart("seeds: [0]", "seeds: [0]\nkeep: []"))
    with pytest.raises(UserError, match=r"'keep' must be a list"):
        mine(write, "base: quickstart\nkeep: triplet\n")
    second = write(first="base: quickstart\nkeep: [triplet]\n", second="base: first\nmethods: {arcface: }\n")
    assert list(compose("second", second)["methods"]) == ["triplet", "arcface"], "'keep' is not inherited"


@pytest.mark.parametrize("left_out", ["keep: [triplet]", "methods: {arcface: }"])
def test_a_dropped_row_is_also_dropped_from_the_variants(write, left_out):
    change = "{triplet: {loss: {margin: 0.3}}, arcface: {loss: {margin: 20}}}"
    files = write(
        first=f"base: quickstart\nvariants: {{code: {{methods: {change}}}}}\n", second=f"base: first\n{left_out}\n"
    )
    study = compose("second", files, "code")
    assert "arcface" not in study["methods"] and study["methods"]["triplet"]["loss"]["margin"] == 0.3


def test_no_shipped_study_empties_a_row_of_its_base():
    for name, path in STUDIES.items():
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
        if "base" in content:
            inherited = compose(content["base"], FILES)["methods"]
            assert not [
                row for row, spec in (content.get("methods") or {}).items() if spec is None and row in inherited
            ], name


def test_also_build_is_not_inherited(write):
    assert compose("unbiased", FILES)["also_build"] and compose("unbiased_resnet50", FILES)["also_build"] == []
    with pytest.raises(UserError, match="'also_build': there is no other study 'mlcr'; did you mean 'mlrc'"):
        mine(write, "base: quickstart\ntitle: T\nalso_build: [mlcr]\n")
    with pytest.raises(UserError, match="'also_build': there is no other study 'mine'"):
        mine(write, "base: quickstart\ntitle: T\nalso_build: [mine]\n")


def test_top_level_keys_can_be_read_from_a_study_with_other_mistakes(write):
    files = write(
        mine="base: mlrc\nalso_build: [mlrc]\nsedes: [0]\nmethods: {nonsense: 3}\n",
        broken="base: [\n",
        lost="base: nowhere\n",
    )
    assert top_level("mine", files)["published"] == "mlrc.yaml"
    assert top_level("mine", files)["also_build"] == ["mlrc"]
    assert top_level("broken", files) == top_level("lost", files) == top_level("unknown", files) == {}


# --- variants, sweeps, hyper-parameters ------------------------------------------------------------------------------


def test_a_variant_changes_protocol_and_rows(write):
    changes = "{{protocol: {{sampler: {{batch: 16}}}}, methods: {{triplet: {row}}}}}"
    text = f"base: quickstart\n{{own}}variants: {{{{code: {changes}}}}}\n"
    row = "{seeds: 1}"
    plain = mine(write, text.format(own="", row=row))
    base = compose("quickstart", FILES)
    assert plain["variant"] == "recommended" and plain["methods"] == base["methods"]
    changed = mine(write, text.format(own="", row=row), "code")
    assert changed["variant"] == "code"
    assert changed["protocol"]["sampler"] == {**base["protocol"]["sampler"], "batch": 16}
    assert changed["methods"]["triplet"] == {**base["methods"]["triplet"], "seeds": 1}
    assert changed["methods"]["arcface"] == base["methods"]["arcface"]
    assert mine(write, text.format(own="variant: code\n", row=row)) == changed
    assert compose("quickstart", FILES, "code")["variant"] == "recommended", "studies without variants do not change"
    another = mine(write, text.format(own="", row="{loss: {class: ContrastiveLoss}}"), "code")["methods"]["triplet"]
    assert another["loss"] == {"class": "ContrastiveLoss"} and another["label"] == "Triplet"
    for row, chosen, sentence in (
        ("{seeds: 1}", "cod", "unknown variant 'cod'; did you mean 'code'"),
        ("{seeds: 1}, tripplet: {}", "code", "variant 'code': unknown row 'tripplet'; did you mean 'triplet'"),
        ("{sedes: 1}", "code", "unknown key 'sedes' in 'methods.triplet'; did you mean 'seeds'"),
        ("{method: arcface}", "code", "'method' of a row cannot be changed here"),
    ):
        with pytest.raises(UserError, match=sentence):
            mine(write, text.format(own="", row=row), chosen)


def test_a_sweep_is_every_method_with_every_value(write):
    sweep = {
        "label": "X",
        "methods": ["triplet"],
        "values": {2: {"loss": {"margin": 2}}, 16: {"loss": {"margin": 16}, "methods": {"triplet": {"seeds": 1}}}},
    }
    study = mine(write, {"base": "quickstart", "sweep": sweep})
    triplet = compose("quickstart", FILES)["methods"]["triplet"]
    del triplet["defined"]  # rows of a sweep have labels of their own
    loss = {"class": "TripletMarginLoss"}
    assert study["methods"] == {
        "triplet_2": {**triplet, "label": "Triplet, 2", "loss": {**loss, "margin": 2}},
        "triplet_16": {**triplet, "label": "Triplet, 16", "loss": {**loss, "margin": 16}, "seeds": 1},
    }
    for change, sentence in (
        ({"values": {"Wide": {}, "wide": {}}}, "the row name 'triplet_wide' appears twice, because 'wide' and another"),
        ({"values": {"1e-4": {}, "0.0001": {}}}, r"the values '1e-4' and '0\.0001' are the same number"),
        ({"methods": ["tripplet"]}, "'sweep': unknown row 'tripplet'; did you mean 'triplet'"),
        ({"values": {2: {"method": "arcface"}}}, "'sweep': 'method' of a row cannot be changed here"),
        ({"values": {2: {"lose": {}}}}, "unknown key 'lose' in 'methods.triplet_2'; did you mean 'loss'"),
    ):
        with pytest.raises(UserError, match=sentence):
            mine(write, {"base": "quickstart", "sweep": {**sweep, **change}})


def test_hyper_parameters_for_some_datasets_require_them_for_all(write):
    tuned = "    loss: {margin: 0.1}\n    datasets: {cub200: {loss: {margin: 0.2}}}\n"
    text = quickstart("    loss: {margin: 0.1}\n", tuned)
    with pytest.raises(UserError) as caught:
        mine(write, text)
    assert str(caught.value).endswith(
        "row 'triplet' has no hyper-parameters for 'emoji', only for cub200. Add 'methods.triplet.datasets.emoji', or "
        "set 'datasets.emoji.hyperparameters_of' to one of these datasets."
    )
    with pytest.raises(UserError, match=r"for 'sop' \(used by 'emoji'\), only for cub200"):
        mine(write, text.replace("classes: {every: 4}", "hyperparameters_of: sop"))
    study = mine(write, text.replace("classes: {every: 4}", "hyperparameters_of: cub200"))
    assert study["datasets"]["emoji"] == {"hyperparameters_of": "cub200"}


# --- errors ----------------------------------------------------------------------------------------------------------


def test_an_unknown_study_suggests_the_nearest():
    with pytest.raises(UserError, match="Unknown study 'quickstrat'; did you mean 'quickstart'"):
        compose("quickstrat", FILES)


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ("seeds: [0]", "sedes: [0]", "unknown key 'sedes'; did you mean 'seeds'?"),
        ("seeds: [0]\n", "", "key 'seeds' is missing"),
        ("seeds: [0]", "seeds: [zero]", "'seeds.0' must be a whole number, found 'zero'"),
        ("seeds: [0]", "seeds: [0, 0]", "'seeds'"),
        ("evaluate_every: 1", "evaluate_evry: 1", "unknown key 'evaluate_evry' in 'protocol.schedule'; did you mean"),
        ("- center_crop:", "- centre_crop:", "unknown key 'centre_crop' in 'protocol.transforms.eval.0'; did you mean"),
        ("{size: 64}", "{side: 64}", "unknown key 'side' in 'protocol.transforms.eval.0.center_crop'; did you mean"),
        ("{size: 64}", "{}", "key 'size' is missing in 'protocol.transforms.eval.0.center_crop'"),
        ("scale: [0.5, 1.0]", "scale: 0.5", "'protocol.transforms.train.0.random_resized_crop.scale' must be a list"),
        ("batch_norm: frozen", "batch_norm: forzen", "did you mean 'frozen'?"),
        ("  precision:", "  precison:", "unknown key 'precison' in 'protocol'; did you mean 'precision'?"),
        ("classes: {every", "clases: {every", "unknown key 'clases' in 'datasets.emoji'; did you mean 'classes'?"),
        ("every: 4}", "every: 4}\n    samplr: {}", "unknown key 'samplr' in 'datasets.emoji'; did you mean 'sampler'?"),
        ("loss: {margin: 0.1}", "los: {margin: 0.1}", "unknown key 'los' in 'methods.triplet'; did you mean 'loss'?"),
        (
            "loss: {margin: 0.1}",
            "datasets: {emoji: {mner: {}}}",
            "unknown key 'mner' in 'methods.triplet.datasets.emoji'; did you mean 'miner'?",
        ),
        (
            "loss: {margin: 0.1}",
            "loss: 3",
            "'methods.triplet.loss' must be a mapping of keys to values, found 3",
        ),
        (
            "    loss: {margin: 0.1}",
            "    3",
            "'methods.triplet' must be a mapping of keys to values, found 3",
        ),
        (
            "loss: {margin: 0.1}",
            "evaluation: {metrics: [P@1]}",
            "unknown key 'metrics' in 'methods.triplet.evaluation'",
        ),
        (
            "loss: {margin: 0.1}",
            "split: {scheme: official}",
            "'methods.triplet.split' cannot be set here. All rows of a dataset are compared on the same images: set "
            "'split' in the protocol or for the dataset.",
        ),
        ("loss: {margin: 0.1}", "relabel: {class: MetaClasses}", "key 'count' is missing in 'methods.triplet.relabel'"),
        (
            "loss: {margin: 0.1}",
            "schedule: {warm_up: {epoch: 1}}",
            "unknown key 'epoch' in 'methods.triplet.schedule.warm_up'; did you mean 'epochs'?",
        ),
        ("  triplet:", "  tripplet:", "row 'tripplet': unknown method 'tripplet'; did you mean 'triplet'?"),
        ("method: ms_miner", "method: ms_minor", "unknown method 'ms_minor'; did you mean 'ms_miner'?"),
        ("method: ms_miner", "method: 3", "'methods.multi_similarity.method' must be text, found 3"),
        ("  triplet:\n", "  Triplet Loss:\n    label: X\n", "the name 'Triplet Loss'"),
        ("[concatenated, separated]", "[concatenate]", "'views': Unknown view 'concatenate'; did you mean"),
        ("title:", "baseline: triplett\ntitle:", "'baseline': unknown row 'triplett'; did you mean 'triplet'"),
        ("title:", "baseline: triplet\ntitle:", "'baseline' needs the views seen_queries and unseen_queries, found"),
        ("title:", "base: nowhere\ntitle:", "'base': there is no other study 'nowhere'"),
        ("title:", "base: mine\ntitle:", "'base': there is no other study 'mine'"),
        ("title:", "seeds: [1]\ntitle:", "key 'seeds' appears twice"),
        ("folds: 4}", "fold: 4}", "unknown key 'fold' in 'protocol.split'; did you mean 'folds'?"),
        (", folds: 4}", "}", "key 'folds' is missing in 'protocol.split'"),
        ("class_disjoint_folds, folds: 4", "halves_by_super_label", "key 'seed' is missing in 'protocol.split'"),
        ("class_disjoint_folds, folds: 4", "class_halfs", "did you mean 'class_halves'?"),
        ("protocol:", "protocol: {", "not valid YAML"),
        # keys of earlier versions
        ("title:", "rows: [triplet]\ntitle:", "unknown key 'rows'; name the rows of the base to take in 'keep'"),
        ("title:", "includes: []\ntitle:", "unknown key 'includes'; it was renamed to 'also_build'."),
        ("title:", "fidelity: code\ntitle:", "unknown key 'fidelity'; it was renamed to 'variant'."),
        ("title:", "fidelities: {}\ntitle:", "unknown key 'fidelities'; it was renamed to 'variants'."),
        ("title:", "compare_with: triplet\ntitle:", "unknown key 'compare_with'; it was renamed to 'baseline'."),
        (
            "classes: {every: 4}",
            "tuned_as: cub200",
            "'tuned_as' in 'datasets.emoji'; it was renamed to 'hyperparameters_of'.",
        ),
        ("  precision:", "  scheduler:", "unknown key 'scheduler' in 'protocol'; it was renamed to 'lr_schedule'."),
        ("loss: {margin: 0.1}", "folds: 1", "unknown key 'folds' in 'methods.triplet'; it was renamed to 'members'."),
        (
            "loss: {margin: 0.1}",
            "published_as: x",
            "'published_as' in 'methods.triplet'; it was renamed to 'compare_to'.",
        ),
        (
            "loss: {margin: 0.1}",
            "from: mlrc",
            "unknown key 'from' in 'methods.triplet'; it was removed. Name the row's method instead, as in 'method: "
            "angular'.",
        ),
        ("also: [P@1, RP]", "folds: 2", "unknown key 'folds' in 'protocol.selection'; "),
    ],
)
def test_a_mistake_in_a_study_is_reported_on_one_line_with_file_and_key(write, old, new, sentence):
    with pytest.raises(UserError) as caught:
        mine(write, quickstart(old, new))
    assert sentence in str(caught.value)
    assert "mine.studies.yaml" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"lose": {}}, "unknown key 'lose'; did you mean 'loss'?"),
        ({"folds": 2}, "unknown key 'folds'; it was renamed to 'members'."),
        ({"scheduler": {}}, "unknown key 'scheduler'; it was renamed to 'lr_schedule'."),
        ({"split": {"scheme": "official"}}, "'split' cannot be set here."),
        ({"family": "pears"}, "'family' is 'pears'; did you mean 'pairs'?"),
        ({"model": {"poolin": {}}}, "unknown key 'poolin' in 'model'; did you mean 'pooling'?"),
        ({"paper": {"title": "T"}}, "key 'authors' is missing in 'paper'"),
        ({"paper": "anguler"}, "'paper': there is no method 'anguler' with a paper; did you mean 'angular'?"),
        ({"paper": "pretrained"}, "'paper': there is no method 'pretrained' with a paper"),
        ({"label": None}, "'label' must be text, found nothing"),
    ],
)
def test_a_mistake_in_a_method_is_reported_with_its_file(write, change, sentence):
    write("methods", new={"label": "New", "family": "pairs", "loss": {"class": "ContrastiveLoss"}, **change})
    with pytest.raises(UserError) as caught:
        mine(write, {"base": "quickstart", "methods": {"new": None}})
    assert sentence in str(caught.value) and "new.methods.yaml" in str(caught.value)


def test_the_old_name_of_a_config_key_is_explained():
    with pytest.raises(UserError, match="unknown key 'fidelity'; it was renamed to 'variant'"):
        schema.validate({"study": "quickstart", "fidelity": "code"}, "config", "config")


def test_every_new_name_of_a_renamed_key_exists():
    text = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "workflow/schemas").glob("*.yaml"))
    for old, new in schema.OLD_WORDS.items():
        assert f" {new}:" in text, old


def test_settings_are_annotated_with_their_readers():
    of_parts = ("transforms", "model", "sampler", "relabel", "forward", "loss", "miner", "optimisers", "lr_schedule")
    others = ("clip_gradient_norm", "schedule", "selection", "precision", "loss_scale", "compile")
    assert schema.settings_used_by("training") == (*of_parts, *others)
    assert schema.settings_used_by("released") == ("transforms", "model", "sampler", "precision")
    assert schema.settings_used_by("evaluation") == ("evaluation", "reduction")
    settings = schema._schema("study.schema.yaml").contents["$defs"]["settings"]["properties"]
    assert all(about["used_by"] for about in settings.values())


@pytest.mark.parametrize("variant", ["recommended", "code", "paper"])
@pytest.mark.parametrize("name", [name for name in STUDIES if name.startswith("unbiased")])
def test_every_variant_of_the_unbiased_studies_is_complete(name, variant):
    study = compose(name, FILES, variant)
    for row, settings in study["methods"].items():
        steps = merge(study["protocol"]["transforms"], settings.get("transforms", {}))["train"]
        sizes = [step["random_crop"]["size"] for step in steps if "random_crop" in step]
        paper = variant == "paper" and "tiny" not in name and not row.startswith("dreml")
        assert sizes == ([224] if paper else [])

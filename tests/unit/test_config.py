"""Configuration: what is read, what is refused and in which words, and what a run's settings resolve to."""

import copy
import textwrap
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recheck import config
from recheck.data import description
from recheck.errors import UserError
from recheck.study.yaml import names_in, read_yaml

ROOT = Path(__file__).parents[2]
QUICKSTART = ROOT / "config/studies/quickstart.yaml"


@pytest.fixture
def study():
    return config.load_study("quickstart", {"quickstart": QUICKSTART})


def load(tmp_path, change):
    """The quickstart with a change, read again from a file."""
    text = QUICKSTART.read_text(encoding="utf-8")
    changed = change(text)
    assert changed != text, "the change did not apply"
    path = tmp_path / "mine.yaml"
    path.write_text(changed, encoding="utf-8")
    return config.load_study("mine", {"mine": path})


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ("seeds: [0]", "sedes: [0]", "unknown key 'sedes'; did you mean 'seeds'?"),
        ("seeds: [0]", "seeds: [zero]", "'seeds.0' must be of type integer, found str 'zero'"),
        ("seeds: [0]", "seeds: [0, 0]", "'seeds'"),
        ("evaluate_every: 1", "evaluate_evry: 1", "unknown key 'evaluate_evry' in 'protocol.schedule'"),
        ("- center_crop:", "- centre_crop:", "unknown key 'centre_crop' in 'protocol.transforms.eval.0'; did you mean"),
        ("{size: 64}", "{side: 64}", "unknown key 'side' in 'protocol.transforms.eval.0.center_crop'; did you mean"),
        ("{size: 64}", "{}", "key 'size' is missing in 'protocol.transforms.eval.0.center_crop'"),
        ("scale: [0.5, 1.0]", "scale: 0.5", "'protocol.transforms.train.0.random_resized_crop.scale' must be of type"),
        ("batch_norm: frozen", "batch_norm: forzen", "did you mean 'frozen'?"),
        ("metric: MAP@R", "metric: MAP@K", "'selection.metric': There is no metric 'MAP@K': did you mean 'MAP@R'?"),
        ("table: [P@1, RP, MAP@R]", "table: [P@1, R@64]", "which 'evaluation.metrics' does not compute"),
        ("class: TripletMarginLoss", "class: TripletMarginLos", "did you mean 'TripletMarginLoss'?"),
        ("class: MultiSimilarityMiner", "class: MultiSimMiner", "unknown class 'MultiSimMiner' in 'miner'"),
        ("    loss: {class: TripletMarginLoss, margin: 0.1}\n", "", "has no 'loss'"),
        ("  triplet:", "  Triplet Loss:", "the name 'Triplet Loss'"),
        (
            "label: Triplet\n",
            "label: Triplet\n    datasets: {cub200: {loss: {margin: 0.2}}}\n",
            "method 'triplet' has no hyper-parameters for 'emoji', only for cub200: add "
            "'methods.triplet.datasets.emoji', or set 'datasets.emoji.tuned_as' to one of these",
        ),
        (
            "miner: {class: MultiSimilarityMiner, epsilon: 0.1}",
            "miner: {class: MultiSimilarityMiner, epsilon: 0.1}\n    sampler: {per_class: 1}",
            "method 'multi_similarity': the miner 'MultiSimilarityMiner' looks for images of the same class, but the "
            "sampler 'MPerClass' does not put them into a batch",
        ),
        (
            "miner: {class: MultiSimilarityMiner, epsilon: 0.1}",
            "miner: {class: MultiSimilarityMiner, epsilon: 0.1}\n    sampler: {class: Shuffled, batch: 32}",
            "but the sampler 'Shuffled' does not put them into a batch",
        ),
        (
            "loss: {class: TripletMarginLoss, margin: 0.1}",
            "loss: {class: WithinPairLoss, sharpness: 32, loss: {class: TripletMarginLoss}}",
            "the loss 'WithinPairLoss' needs several views: add 'forward: {class: MultiView, …}'",
        ),
        (
            "loss: {class: TripletMarginLoss, margin: 0.1}",
            "loss: {class: TripletMarginLoss}\n    forward: {class: MultiView, passes: 2, masks: 2, dropout: 0.1}",
            "the loss 'TripletMarginLoss' takes one view of an image: put it inside '{class: WithinPairLoss, loss: …}'",
        ),
        (
            "miner: {class: MultiSimilarityMiner, epsilon: 0.1}",
            "miner: {class: MultiSimilarityMiner}\n    forward: {class: MultiView, passes: 2, masks: 2, dropout: 0.1}",
            "a miner can't look at several views",
        ),
        ("title:", "base: nowhere\ntitle:", "'base' names no other study 'nowhere'"),
        ("title:", "base: mine\ntitle:", "'base' names no other study 'mine'"),
        ("title:", "seeds: [1]\ntitle:", "key 'seeds' appears twice"),
        ("folds: 4}", "fold: 4}", "unknown key 'fold' in 'protocol.split'; did you mean 'folds'?"),
        (", folds: 4}", "}", "key 'folds' is missing in 'protocol.split'"),
        ("class_disjoint_folds, folds: 4", "halves_by_super_label", "key 'seed' is missing in 'protocol.split'"),
        ("class_disjoint_folds, folds: 4", "class_halfs", "did you mean 'class_halves'?"),
        ("class_disjoint_folds", "class_halves", "'split': The scheme class_halves has no option 'folds'"),
        ("class_disjoint_folds, folds: 4", "class_halves", "the split scheme class_halves has only train, test; leave"),
        ("    resize:\n", "    resize: {jpeg: 75}\n", "'transforms.resize' needs either 'shorter', 'exact' or 'fit'"),
        ("protocol:", "protocol: {", "not valid YAML"),
    ],
)
def test_a_mistake_in_a_study_is_one_sentence_that_names_file_and_key(tmp_path, old, new, sentence):
    with pytest.raises(UserError) as error:
        load(tmp_path, lambda text: text.replace(old, new, 1))
    assert sentence in str(error.value)
    assert "mine.yaml" in str(error.value)
    assert "\n" not in str(error.value)


def test_missing_key_is_named(tmp_path):
    with pytest.raises(UserError, match="key 'seeds' is missing"):
        load(tmp_path, lambda text: text.replace("seeds: [0]\n", ""))


def test_unknown_study_and_dataset_name_the_nearest():
    with pytest.raises(UserError, match="no study 'quickstrat'; did you mean 'quickstart'"):
        config.load_study("quickstrat", {"quickstart": QUICKSTART})
    with pytest.raises(UserError, match="no dataset 'emojis'; did you mean 'emoji'"):
        description.load_dataset("emojis", {"emoji": ROOT / "config/datasets/emoji.yaml"}, "here")


def test_scientific_notation_without_a_dot_is_a_number(tmp_path):
    path = tmp_path / "numbers.yaml"
    path.write_text("{a: 1e-4, b: -2E+3, c: 1.5e-6, d: e4, e: 10}", encoding="utf-8")
    assert read_yaml(path) == {"a": 1e-4, "b": -2000.0, "c": 1.5e-6, "d": "e4", "e": 10}


def test_a_layer_changes_only_what_it_names(study):
    base = config.resolve(study, "emoji", "triplet")
    assert base["sampler"] == {"class": "MPerClass", "batch": 32, "per_class": 4, "length": 2560}
    assert base["loss"] == {"class": "TripletMarginLoss", "margin": 0.1}
    assert config.resolve(study, "emoji", "arcface")["sampler"]["per_class"] == 1
    assert config.resolve(study, "emoji", "pretrained")["model"]["head"] == {"class": "Identity"}

    tuned = copy.deepcopy(study)
    tuned["methods"]["triplet"]["datasets"] = {"emoji": {"loss": {"margin": 0.7}, "schedule": {"patience": 3}}}
    resolved = config.resolve(tuned, "emoji", "triplet")
    assert resolved["loss"] == {"class": "TripletMarginLoss", "margin": 0.7}
    assert resolved["schedule"] == {**base["schedule"], "patience": 3}


def test_another_class_replaces_the_whole_part():
    assert config.merge({"class": "Adam", "lr": 1, "betas": 2}, {"class": "SGD", "lr": 3}) == {"class": "SGD", "lr": 3}
    assert config.merge({"class": "Adam", "lr": 1}, {"lr": 3}) == {"class": "Adam", "lr": 3}


def test_a_scheme_without_folds_has_one(tmp_path):
    def change(text):
        text = text.replace("classes: {every: 4}", "split: {scheme: official}")
        return text.replace("selection: {role: val, metric: MAP@R,", "selection: {")

    study = load(tmp_path, change)
    assert config.split_of(study, "emoji") == {"scheme": "official"}, "another scheme replaces the whole part"
    assert config.folds_of(config.resolve(study, "emoji", "triplet")) == 1


NESTED = st.recursive(
    st.integers() | st.text(max_size=3),
    lambda inner: st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=8,
)


@given(NESTED, NESTED)
def test_merge_keeps_its_inputs_and_prefers_the_second(base, over):
    kept = copy.deepcopy((base, over))
    merged = config.merge(base, over)
    assert (base, over) == kept
    assert config.merge(merged, over) == merged
    assert config.merge({}, over) == over


def test_training_settings_do_not_depend_on_what_is_only_shown(study):
    changed = copy.deepcopy(study)
    changed["methods"]["triplet"]["label"] = "Another name"
    changed["protocol"]["evaluation"]["table"] = ["RP"]
    before, after = (config.training_part(config.resolve(s, "emoji", "triplet")) for s in (study, changed))
    assert before == after


def test_hyper_parameters_of_another_dataset(tmp_path):
    tuned = "datasets: {cub200: {loss: {margin: 0.2}, optimisers: {head: {lr: 0.5}}}}"
    study = load(
        tmp_path,
        lambda text: text.replace("classes: {every: 4}", "tuned_as: cub200").replace(
            "label: Triplet\n", f"label: Triplet\n    {tuned}\n"
        ),
    )
    triplet = config.resolve(study, "emoji", "triplet")
    assert triplet["loss"] == {"class": "TripletMarginLoss", "margin": 0.2}
    assert triplet["optimisers"]["head"] == {"class": "Adam", "lr": 0.5}
    assert "tuned_as" not in triplet
    assert config.resolve(study, "emoji", "arcface")["optimisers"]["head"]["lr"] == 1e-3


def test_a_study_with_a_base_changes_protocol_and_methods_and_replaces_the_rest(tmp_path, study):
    own = tmp_path / "small.yaml"
    own.write_text(
        "base: quickstart\ntitle: Small\nseeds: [7]\ndatasets: {emoji: {classes: {first: 40}}}\n"
        "protocol: {sampler: {batch: 8}, transforms: {eval: [{center_crop: {size: 32}}]}}\n"
        "methods: {triplet: {loss: {margin: 0.7}}, other: {label: Other, loss: {class: TripletMarginLoss}}}\n",
        encoding="utf-8",
    )
    small = config.load_study("small", {"small": own, "quickstart": QUICKSTART})
    assert small["title"] == "Small" and small["seeds"] == [7] and small["name"] == "small"
    assert list(small["methods"]) == [*study["methods"], "other"]
    assert small["methods"]["triplet"]["loss"] == {"class": "TripletMarginLoss", "margin": 0.7}
    assert small["methods"]["arcface"] == study["methods"]["arcface"]
    assert small["datasets"] == {"emoji": {"classes": {"first": 40}}}
    assert small["protocol"]["sampler"] == {**study["protocol"]["sampler"], "batch": 8}
    assert small["protocol"]["transforms"]["eval"] == [{"center_crop": {"size": 32}}]
    assert small["protocol"]["transforms"]["train"] == study["protocol"]["transforms"]["train"]
    deeper = tmp_path / "deeper.yaml"
    deeper.write_text("base: small\nseeds: [8]\n", encoding="utf-8")
    paths = {"deeper": deeper, "small": own, "quickstart": QUICKSTART}
    assert config.load_study("deeper", paths) == {**small, "name": "deeper", "base": "small", "seeds": [8]}
    deeper.write_text("base: small\nmethods: {other: }\n", encoding="utf-8")
    fewer = config.load_study("deeper", paths)
    assert fewer["seeds"] == [7] and list(fewer["methods"]) == list(study["methods"]), "an empty row is left out"
    own.write_text("base: deeper\n", encoding="utf-8")
    with pytest.raises(UserError, match="goes in a circle"):
        config.load_study("deeper", paths)


def test_a_row_that_is_left_out_is_gone_from_the_fidelities_too(tmp_path):
    first, second = tmp_path / "first.yaml", tmp_path / "second.yaml"
    change = "{triplet: {loss: {margin: 0.3}}, arcface: {loss: {margin: 20}}}"
    first.write_text(f"base: quickstart\nfidelities: {{code: {{methods: {change}}}}}\n", encoding="utf-8")
    second.write_text("base: first\nmethods: {arcface: }\n", encoding="utf-8")
    paths = {"first": first, "second": second, "quickstart": QUICKSTART}
    study = config.load_study("second", paths, "code")
    assert "arcface" not in study["methods"] and study["methods"]["triplet"]["loss"]["margin"] == 0.3


def test_restricting_to_methods_and_seeds(study):
    assert list(config.restrict(study, "methods", ["triplet"])["methods"]) == ["triplet"]
    assert config.restrict(study, "seeds", [3, 4])["seeds"] == [3, 4]
    assert config.restrict(study, "seeds", None) is study
    with pytest.raises(UserError, match="no method 'tripplet'; did you mean 'triplet'"):
        config.restrict(study, "methods", ["tripplet"])


def test_a_method_of_a_sweep_stands_for_its_rows():
    sweep = config.load_study("unbiased_tiny_batch_size", names_in([ROOT / "config/studies"]))
    assert list(config.restrict(sweep, "methods", ["margin", "npair_8"])["methods"]) == [
        "margin_8",
        "margin_32",
        "npair_8",
    ]
    with pytest.raises(UserError, match="no method 'margn'; did you mean 'margin'"):
        config.restrict(sweep, "methods", ["margn"])


def test_files_with_a_users_own_classes_are_found(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text("class Loss: ...")
    (tmp_path / "pack").mkdir()
    (tmp_path / "pack" / "deep.py").write_text("")
    spec = {
        "loss": {"class": "mine:Loss"},
        "more": [{"class": "pack.deep:X"}],
        "other": "not.there:Y",
        "url": "http://x",
    }
    assert config.own_files(spec) == ["mine.py", "pack/deep.py"]


def test_every_key_of_every_schema_has_a_sentence():
    """Keys without a description would be missing from the documentation."""

    def check(schema, path):
        for name, child in schema.get("properties", {}).items():
            if "$ref" not in child and "allOf" not in child and name != "class":
                assert child.get("description"), f"{path}.{name} has no description"
            check(child, f"{path}.{name}")
        for key in ("items", "additionalProperties"):
            if isinstance(schema.get(key), dict):
                check(schema[key], path)

    for schema in (ROOT / "workflow/schemas").glob("*.schema.yaml"):
        check(read_yaml(schema), schema.stem)


def test_readme_of_the_configuration_names_every_key():
    text = (ROOT / "config/README.md").read_text(encoding="utf-8")

    def keys(schema):
        for name, child in schema.get("properties", {}).items():
            yield name
            yield from keys(child)
        for key in ("items", "additionalProperties"):
            if isinstance(schema.get(key), dict):
                yield from keys(schema[key])
        for definition in schema.get("$defs", {}).values():
            yield from keys(definition)

    for schema in sorted((ROOT / "workflow/schemas").glob("*.schema.yaml")):
        missing = {key for key in keys(read_yaml(schema)) if f"`{key}`" not in text}
        assert not missing, f"config/README.md does not explain {sorted(missing)} of {schema.name}"


def test_yaml_errors_say_the_line(tmp_path):
    path = tmp_path / "broken.yaml"
    path.write_text(
        textwrap.dedent("""\
        title: x
        seeds: [0
        other: 1
    """)
    )
    with pytest.raises(UserError, match=r"broken.yaml, line \d"):
        read_yaml(path)


TEST = "selection: {role: test, metric: R@1"


def on_test(text, *more):
    """The quickstart, selected on the test set."""
    start = text.index("  selection:")
    text = text[:start] + f"  {TEST}}}" + text[text.index("\n", start) :]
    for old, new in (("views: [concatenated, separated]", "views: [best_on_test, last_epoch]"), *more):
        assert old in text
        text = text.replace(old, new, 1)
    return text


def parts(study, method="triplet"):
    resolved = config.resolve(study, "emoji", method)
    return config.training_part(resolved), config.evaluation_part(resolved)


def test_a_study_may_be_selected_on_the_test_set(tmp_path):
    training, evaluation = parts(load(tmp_path, on_test))
    assert training["selection"] == {"role": "test", "metric": "R@1"}
    assert evaluation["select"] == "R@1"
    assert "evaluation" not in training
    untrained = next(iter(config.load_study("quickstart", {"quickstart": QUICKSTART})["methods"]))
    assert "select" not in parts(load(tmp_path, on_test), untrained)[1]


def test_embedding_training_images_is_no_setting_of_training(tmp_path):
    table = "table: [P@1, RP, MAP@R]"
    plain = config.resolve(load(tmp_path, on_test), "emoji", "triplet")
    shown = load(tmp_path, lambda text: on_test(text, (table, f"{table}\n    distances: train")))
    shown = config.resolve(shown, "emoji", "triplet")
    assert config.embedding_part(plain) == config.training_part(plain) == config.training_part(shown)
    assert config.embedding_part(shown) == {**config.training_part(plain), "distances": "train"}
    with pytest.raises(UserError, match="distances"):
        load(tmp_path, lambda text: on_test(text, (table, f"{table}\n    distances: training")))


def test_how_metrics_are_computed_is_a_setting_of_runs_that_look_at_them(tmp_path):
    table = "table: [P@1, RP, MAP@R]"
    raw = (table, f"{table}\n    normalise: false\n    clustering: {{kmeans: scikit-learn}}")
    training, evaluation = parts(load(tmp_path, lambda text: on_test(text, raw)))
    assert training["evaluation"] == {"normalise": False}
    assert evaluation["normalise"] is False and evaluation["clustering"] == {"kmeans": "scikit-learn"}
    watch = (f"{TEST}}}", f"{TEST}, watch: {{train: [NMI]}}}}")
    training, _ = parts(load(tmp_path, lambda text: on_test(text, raw, watch)))
    assert training["evaluation"] == {"normalise": False, "clustering": {"kmeans": "scikit-learn"}}
    blind = (f"  {TEST}}}", "  selection: {}")
    shown = ("views: [best_on_test, last_epoch]", "views: [last_epoch]")
    training, evaluation = parts(load(tmp_path, lambda text: on_test(text, raw, shown, blind)))
    assert "evaluation" not in training and evaluation["normalise"] is False


def test_a_method_may_be_evaluated_otherwise(tmp_path):
    study = load(
        tmp_path, lambda t: t.replace("label: Triplet\n", "label: Triplet\n    evaluation: {normalise: false}\n")
    )
    assert parts(study)[1]["normalise"] is False
    assert "normalise" not in parts(study, "multi_similarity")[1]


def test_defaults_are_in_no_ones_settings(study):
    """Runs that are finished must stay so: their settings are compared word by word."""
    training, evaluation = parts(study)
    assert set(evaluation) == {"metrics", "reduction"}
    assert set(training) <= {
        *("model", "transforms", "sampler", "loss", "miner", "optimisers", "lr_schedule", "schedule", "selection"),
        "precision",
    }


def test_meta_classes_know_the_number_of_members(tmp_path):
    study = load(
        tmp_path,
        lambda t: t.replace(
            "label: Triplet\n", "label: Triplet\n    folds: 48\n    relabel: {class: MetaClasses, count: 12}\n"
        ),
    )
    assert parts(study)[0]["relabel"] == {"class": "MetaClasses", "count": 12, "members": 48}
    assert config.folds_of(config.resolve(study, "emoji", "triplet")) == 48


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        (f"{TEST}}}", "selection: {role: val, metric: R@1}", "the view 'best_on_test' needs 'selection: {role: test"),
        (
            f"views: [best_on_test, last_epoch]|{TEST}}}",
            "views: [last_epoch]|selection: {role: val, metric: R@1}",
            "the view 'last_epoch' shows no last epoch if 'selection.role' is 'val'",
        ),
        (f"{TEST}}}", "selection: {role: train, metric: R@1}", "'protocol.selection.role' is str 'train'"),
        (f"{TEST}}}", f"{TEST}, watch: {{tset: [R@1]}}}}", "'selection.watch' names 'tset', but the split scheme"),
        (f"{TEST}}}", f"{TEST}, watch: {{test: [R1]}}}}", "'selection.watch.test': There is no metric 'R1'"),
        ("label: Triplet\n", "label: Triplet\n    evaluation: {metrics: [P@1]}\n", "unknown key 'metrics'"),
        ("label: Triplet\n", "label: Triplet\n    relabel: {class: MetaClasses}\n", "key 'count' is missing"),
        (
            "label: Triplet\n",
            "label: Triplet\n    forward: {class: InTurns, parts: 3}\n",
            "into 3 parts, which is no divisor",
        ),
        (
            "label: Triplet\n",
            "label: Triplet\n    schedule: {warm_up: {epoch: 1}}\n",
            "unknown key 'epoch' in 'methods.triplet.schedule.warm_up'; did you mean 'epochs'?",
        ),
    ],
)
def test_mistakes_in_protocols_of_others_are_named(tmp_path, old, new, sentence):
    changes = list(zip(old.split("|"), new.split("|"), strict=True))
    with pytest.raises(UserError) as caught:
        load(tmp_path, lambda text: on_test(text, *changes))
    assert sentence in str(caught.value)

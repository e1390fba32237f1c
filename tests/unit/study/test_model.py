"""Run settings: how they are resolved, and which of them checkpoints, embeddings and metrics depend on."""

import dataclasses

import pytest

from recheck.errors import UserError
from support.project.studies import TEXT, changed, own_study, shipped

TABLE = "table: [P@1, RP, MAP@R]"
SELECTION = "selection:\n    role: val\n    metric: MAP@R\n    also: [P@1]"
ON_TEST = (
    (SELECTION, "selection: {role: test, metric: R@1}"),
    ("views: [concatenated, separated]", "views: [best_on_test, last_epoch]"),
)


@pytest.fixture
def study(tmp_path):
    return own_study(tmp_path)


def test_a_layer_changes_only_the_keys_that_it_names(study, tmp_path):
    triplet = study.run("emoji", "triplet").settings
    assert triplet["sampler"] == {"class": "MPerClass", "batch": 8, "per_class": 2, "length": 64}
    assert triplet["loss"] == {"class": "TripletMarginLoss", "margin": 0.1}
    assert study.run("emoji", "arcface").settings["sampler"]["per_class"] == 1
    assert study.run("emoji", "untrained").settings["model"]["head"] == {"class": "Identity"}
    tuned = "label: Triplet\n    datasets: {emoji: {loss: {margin: 0.7}, schedule: {patience: 3}}}\n"
    settings = changed(tmp_path, ("label: Triplet\n", tuned)).run("emoji", "triplet").settings
    assert settings["loss"] == {"class": "TripletMarginLoss", "margin": 0.7}
    assert settings["schedule"] == {**triplet["schedule"], "patience": 3}


def test_hyperparameters_of_another_dataset(tmp_path):
    tuned = "datasets: {cub200: {loss: {margin: 0.2}, optimisers: {head: {lr: 0.5}}}}"
    study = changed(
        tmp_path,
        ("classes: {every: 4}", "hyperparameters_of: cub200"),
        ("label: Triplet\n", f"label: Triplet\n    {tuned}\n"),
    )
    triplet = study.run("emoji", "triplet").settings
    assert triplet["loss"] == {"class": "TripletMarginLoss", "margin": 0.2}
    assert triplet["optimisers"]["head"] == {"class": "Adam", "lr": 0.5}
    assert "hyperparameters_of" not in triplet
    assert study.run("emoji", "arcface").settings["optimisers"]["head"]["lr"] == 1e-3


def test_a_sampler_of_another_class_keeps_the_batch_size_by_default(tmp_path):
    loss = "loss: {class: TripletMarginLoss, margin: 0.1}\n"
    study = changed(tmp_path, (loss, f"{loss}    sampler: {{class: BalancedClasses, per_class: 2, batches: 9}}\n"))
    assert study.run("emoji", "triplet").training["sampler"] == {
        "batch": 8,
        "batches": 9,
        "class": "BalancedClasses",
        "per_class": 2,
    }
    study = changed(tmp_path, (loss, f"{loss}    sampler: {{class: Shuffled, batch: 16}}\n"))
    assert study.run("emoji", "triplet").training["sampler"] == {"batch": 16, "class": "Shuffled"}


def test_a_split_scheme_without_folds_has_one_member(tmp_path):
    study = changed(
        tmp_path,
        ("classes: {every: 4}", "split: {scheme: official}"),
        (SELECTION, "selection: {also: [P@1]}"),
    )
    assert study.split("emoji") == {"scheme": "official"}, "another scheme replaces the whole part"
    assert study.run("emoji", "triplet").members == 1


def test_labels_and_table_columns_are_not_training_settings(study, tmp_path):
    other = changed(tmp_path, ("label: Triplet\n", "label: Another name\n"), (TABLE, "table: [RP]"))
    assert other.run("emoji", "triplet").training == study.run("emoji", "triplet").training
    assert other.run("emoji", "triplet").evaluation == study.run("emoji", "triplet").evaluation


def test_the_order_of_yaml_keys_does_not_change_the_settings(study, tmp_path):
    swapped = changed(
        tmp_path,
        (
            "{class: MPerClass, batch: 8, per_class: 2, length: 64}",
            "{length: 64, per_class: 2, batch: 8, class: MPerClass}",
        ),
        ("    backbone: {class: Adam, lr: 0.001}\n", ""),
        (
            "    loss: {class: Adam, lr: 0.01}\n",
            "    loss: {lr: 0.01, class: Adam}\n    backbone: {lr: 0.001, class: Adam}\n",
        ),
    )
    for group in ("training", "embedding", "evaluation", "split", "eval_transforms"):
        first, second = (repr(getattr(each.run("emoji", "triplet"), group)) for each in (study, swapped))
        assert first == second, group


def test_settings_for_snakemake_are_plain_values(study):
    """Snakemake silently ignores dataclasses as rerun triggers."""

    def plain(value):
        if isinstance(value, dict):
            return (
                list(value) == sorted(value)
                and all(type(key) is str for key in value)
                and all(map(plain, value.values()))
            )
        return all(map(plain, value)) if type(value) is list else type(value) in (str, int, float, bool, type(None))

    run = study.run("emoji", "triplet")
    for group in ("training", "embedding", "evaluation", "split", "eval_transforms", "released"):
        assert plain(getattr(run, group)), group
    assert plain(study.classes["emoji"])
    with pytest.raises(dataclasses.FrozenInstanceError):
        study.name = "other"
    with pytest.raises(dataclasses.FrozenInstanceError):
        run.settings = {}


def test_seeds_and_methods_of_the_config(tmp_path, study):
    assert list(own_study(tmp_path, methods=["triplet"]).rows) == ["triplet"]
    assert own_study(tmp_path, seeds=[3, 4]).rows["triplet"].seeds == (3, 4)
    assert study.rows["triplet"].seeds == (0,)
    with pytest.raises(UserError, match="no row 'tripplet'; did you mean 'triplet'"):
        own_study(tmp_path, methods=["tripplet"])
    with pytest.raises(UserError, match="no row 'tripplet'; did you mean 'triplet'"):
        study.run("emoji", "tripplet")


def test_a_method_of_a_sweep_selects_all_of_its_rows():
    name = "unbiased_tiny_batch_size"
    assert list(shipped(name, methods=["margin", "npair_8"]).rows) == ["margin_8", "margin_32", "npair_8"]
    with pytest.raises(UserError, match="no row 'margn'; did you mean 'margin'"):
        shipped(name, methods=["margn"])


def test_a_sweep_has_only_lines_of_selected_rows():
    study = shipped("unbiased_tiny_batch_size", methods=["margin", "npair_8"])
    assert list(study.swept().values()) == [[(8.0, "margin_8"), (32.0, "margin_32")], [(8.0, "npair_8")]]


def test_a_row_may_have_fewer_seeds_than_the_study():
    assert shipped("unbiased").rows["dreml"].seeds == (0,)
    assert len(shipped("unbiased").rows["triplet"].seeds) == 10
    assert shipped("mlrc_released", seeds=[3, 4]).rows["ms_within_pair_released"].seeds == (3,)


def test_checkpoints_may_be_selected_on_the_test_set(tmp_path):
    study = changed(tmp_path, *ON_TEST)
    run = study.run("emoji", "triplet")
    assert run.training["selection"] == {"metric": "R@1", "role": "test"}
    assert run.evaluation["select"] == "R@1"
    assert "evaluation" not in run.training
    assert "select" not in study.run("emoji", "untrained").evaluation


def test_embedding_training_images_is_not_a_training_setting(tmp_path):
    plain = changed(tmp_path, *ON_TEST).run("emoji", "triplet")
    shown = changed(tmp_path, *ON_TEST, (TABLE, f"{TABLE}\n    distances: train")).run("emoji", "triplet")
    assert plain.embedding == plain.training == shown.training
    assert shown.embedding == {**plain.training, "distances": "train"}
    with pytest.raises(UserError, match="distances"):
        changed(tmp_path, *ON_TEST, (TABLE, f"{TABLE}\n    distances: training"))


def test_metric_options_are_training_settings_only_if_metrics_are_watched(tmp_path):
    raw = (TABLE, f"{TABLE}\n    normalise: false\n    clustering: {{kmeans: scikit-learn}}")
    run = changed(tmp_path, *ON_TEST, raw).run("emoji", "triplet")
    assert run.training["evaluation"] == {"normalise": False}
    assert run.evaluation["normalise"] is False and run.evaluation["clustering"] == {"kmeans": "scikit-learn"}
    watch = ("{role: test, metric: R@1}", "{role: test, metric: R@1, watch: {train: [NMI]}}")
    run = changed(tmp_path, *ON_TEST, raw, watch).run("emoji", "triplet")
    assert run.training["evaluation"] == {"normalise": False, "clustering": {"kmeans": "scikit-learn"}}
    blind = ("selection: {role: test, metric: R@1}", "selection: {}")
    shown = ("views: [best_on_test, last_epoch]", "views: [last_epoch]")
    run = changed(tmp_path, *ON_TEST, raw, shown, blind).run("emoji", "triplet")
    assert "evaluation" not in run.training and run.evaluation["normalise"] is False


def test_a_row_may_change_its_evaluation(tmp_path):
    study = changed(tmp_path, ("label: Triplet\n", "label: Triplet\n    evaluation: {normalise: false}\n"))
    assert study.run("emoji", "triplet").evaluation["normalise"] is False
    assert "normalise" not in study.run("emoji", "mined").evaluation


def test_defaults_are_not_in_the_settings(study):
    """A new default must not rerun finished runs, whose settings are compared literally."""
    run = study.run("emoji", "triplet")
    assert set(run.evaluation) == {"metrics", "reduction"}
    assert set(run.training) == {*("loss", "model", "optimisers", "sampler", "schedule", "selection", "transforms")}


def test_meta_classes_know_the_number_of_members(tmp_path):
    many = "label: Triplet\n    members: 48\n    relabel: {class: MetaClasses, count: 12}\n"
    run = changed(tmp_path, ("label: Triplet\n", many)).run("emoji", "triplet")
    assert run.training["relabel"] == {"class": "MetaClasses", "count": 12, "members": 48}
    assert run.members == 48


def test_the_example_of_these_tests_is_a_complete_study(study):
    assert list(study.rows) == ["untrained", "triplet", "mined", "arcface"]
    assert study.title in TEXT

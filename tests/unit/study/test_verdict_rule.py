"""α and δ of a study, and how precise published values are."""

import pytest
import yaml

from recheck.errors import UserError
from recheck.study import facts
from recheck.study.published import load_published, quoted
from recheck.study.verdict_rule import verdict_rule
from support.project import ROOT
from support.project.studies import TEXT, own_study, shipped


def test_defaults_and_settings_by_metric():
    metrics = ["P@1", "MAP@R", "distance"]
    assert verdict_rule({}, metrics) == {"alpha": 0.05, "delta": {"P@1": 1.0, "MAP@R": 1.0, "distance": 0.01}}
    assert verdict_rule({"alpha": 0.01, "delta": 2}, metrics) == {
        "alpha": 0.01,
        "delta": {"P@1": 2, "MAP@R": 2, "distance": 0.01},
    }
    given = {"delta": {"MAP@R": 0.5, "distance": 0.1}}
    assert verdict_rule(given, metrics)["delta"] == {"P@1": 1.0, "MAP@R": 0.5, "distance": 0.1}


def test_a_rule_reaches_the_tables_and_changes_no_run(tmp_path):
    usual = own_study(tmp_path, TEXT)
    study = own_study(tmp_path, f"{TEXT}\nverdicts: {{alpha: 0.1, delta: {{MAP@R: 0.5}}}}\n")
    assert facts.facts(study, "emoji", [], set())["verdicts"] == {
        "alpha": 0.1,
        "delta": {"MAP@R": 0.5, "P@1": 1.0, "RP": 1.0},
    }
    for row in usual.rows:
        before, after = usual.run("emoji", row), study.run("emoji", row)
        assert repr([before.training, before.embedding, before.evaluation]) == repr(
            [after.training, after.embedding, after.evaluation]
        )


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ("{delta: {MAP: 1}}", "'verdicts.delta': no table of the study shows the metric 'MAP'; did you mean 'MAP@R'?"),
        ("{delta: 0}", "'verdicts.delta' must be greater than 0"),
        ("{delta: {P@1: -1}}", "must be greater than 0"),
        ("{alpha: 0.5}", "'verdicts.alpha' must be less than 0.5"),
        ("{alpha: 5 %}", "'verdicts.alpha' must be a number"),
        ("{beta: 1}", "unknown key 'beta'"),
    ],
)
def test_a_wrong_rule_is_refused_when_the_study_is_read(tmp_path, given, sentence):
    with pytest.raises(UserError) as error:
        own_study(tmp_path, f"{TEXT}\nverdicts: {given}\n")
    assert sentence in str(error.value) and "mine.yaml" in str(error.value)


def test_a_metric_of_several_datasets_is_named_once(tmp_path):
    two = {**yaml.safe_load(TEXT), "datasets": {"emoji": {}, "cub200": {}}, "verdicts": {"delta": {"X": 1}}}
    with pytest.raises(UserError, match=r"known: MAP@R, P@1, RP\.$"):
        own_study(tmp_path, yaml.safe_dump(two))


VALUES = "values: {emoji: {triplet: {separated: {P@1: 50}}}}"


def published(folder, text):
    path = folder / "mine.yaml"
    path.write_text(f"documents:\n  - {{source: A, {text}}}\n", encoding="utf-8")
    return load_published(path)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (f"approximate: true, {VALUES}", "the values of “A” are approximate, so they need a 'reading_error'"),
        (f"runs: 0, {VALUES}", "'documents.0.runs' must be at least 1"),
        (f"runs: {{emoji: {{tripelt: 3}}}}, {VALUES}", "'runs.emoji.tripelt' has no values in 'values'; did you mean"),
        (f"spread: {{emoji: {{triplet: {{separated: {{P@1: 1}}}}}}}}, {VALUES}", "needs two or more runs, found 1"),
        (
            f"runs: 3, spread: {{emoji: {{triplet: {{separated: {{RP: 1}}}}}}}}, {VALUES}",
            "'spread.emoji.triplet.separated.RP' has no value in 'values'",
        ),
    ],
)
def test_wrong_precision_of_published_values_is_refused(tmp_path, text, sentence):
    with pytest.raises(UserError) as error:
        published(tmp_path, text)
    assert sentence in str(error.value) and "mine.yaml" in str(error.value)


def test_precision_reaches_the_facts(tmp_path):
    study = own_study(tmp_path, TEXT)
    documents = published(
        tmp_path,
        "reading_error: 0.2, runs: {default: 10, emoji: {mined: 1}}, "
        "values: {emoji: {triplet: {separated: {P@1: 50}}, mined: {separated: {P@1: 51}}}}, "
        "spread: {emoji: {triplet: {separated: {P@1: 0.6}}}}",
    )
    [document] = quoted(study, "emoji", documents)
    assert (document["runs"], document["reading_error"]) == ({"triplet": 10, "mined": 1}, 0.2)
    assert document["spread"] == {"triplet": {"separated": {"P@1": 0.6}}}
    [usual] = quoted(study, "emoji", published(tmp_path, VALUES))
    assert (usual["runs"], usual["spread"], usual["reading_error"]) == ({"triplet": 1}, {}, 0.005)


def test_the_shipped_values_say_how_many_runs_they_are_the_mean_of():
    def runs_of(study, dataset, place=0):
        documents = load_published(ROOT / "resources/published" / study.published)
        return quoted(study, dataset, documents)[place]["runs"]

    mlrc = runs_of(shipped("mlrc"), "cars196")
    assert mlrc["contrastive"] == 10 and mlrc["contrastive_within_pair"] == 1
    unbiased = shipped("unbiased")
    assert runs_of(unbiased, "cub200")["triplet"] == 10 and runs_of(unbiased, "cub200")["npair"] == 1
    assert set(runs_of(unbiased, "cub200", place=1).values()) == {10}
    assert set(runs_of(unbiased, "cars196").values()) == {1}

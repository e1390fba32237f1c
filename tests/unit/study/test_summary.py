"""Title and description from facts, where a study gives none."""

from recheck.study.compose import compose
from recheck.study.summary import described
from support.project.studies import FILES, own_study, shipped

MINE = "base: quickstart\nkeep: [triplet, arcface]\ndatasets: {cub200: }\n"


def test_a_study_does_not_inherit_the_description_of_its_base(tmp_path):
    study = described(own_study(tmp_path, MINE))
    assert study.title == "Study mine – Triplet and ArcFace on cub200"
    assert study.description == (
        "2 rows on cub200, 1 seed. Backbone: efficientnet_lite0 (imagenet weights). cub200: split "
        "class_disjoint_folds, folds 4; trained for 4 epochs of 10 steps, 32 images per step. Checkpoints "
        "are selected by MAP@R on validation images."
    )


def test_what_a_study_says_itself_is_kept(tmp_path):
    study = described(own_study(tmp_path, f"{MINE}title: Mine\ndescription: Birds.\n"))
    assert (study.title, study.description) == ("Mine", "Birds.")
    assert described(own_study(tmp_path, f"{MINE}title: Mine\n")).description.startswith("2 rows on cub200")


def test_every_shipped_study_has_a_title_and_a_description_of_its_own():
    for name in FILES.studies:
        study = compose(name, FILES)
        assert study["title"] and study["description"], name


def test_many_rows_and_datasets_and_other_selections(tmp_path):
    text = "base: unbiased\npublished:\n"
    study = described(own_study(tmp_path, text))
    assert study.title == "Study mine – 14 rows on cub200, cars196 and sop"
    assert "sop: split official; trained for 12 to 60 epochs" in study.description
    assert study.description.endswith("Checkpoints are selected by R@1 on test images.")
    assert (
        "The checkpoint of the last epoch is used."
        in described(own_study(tmp_path, "base: calibration\npublished:\n")).description
    )
    assert shipped("mlrc").title.startswith("Reality check")

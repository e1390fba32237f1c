"""A study's page, and the way from files to tables, figures and page, on a small real dataset.

The images are real (letters in several typefaces), the embeddings too (their pixels, blurred or not); the histories and
run records are made up.
"""

from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from glyphs import make_glyphs
from PIL import Image

from recheck import targets
from recheck.config import merge
from recheck.data.index import read_index
from recheck.data.packed import pack
from recheck.errors import UserError
from recheck.evaluation.embeddings import read_embeddings, write_embeddings
from recheck.evaluation.metrics import evaluate
from recheck.evaluation.views import evaluate_view
from recheck.files import read_json, sha256, write_json, write_text
from recheck.report import assemble, page, results, tables

# all but those of queries, which this study has none of
SHOWN = [name for name in assemble.FIGURES if name not in ("costs", *assemble.QUERY_FIGURES)]

REDUCTION = {"kind": "pca", "dims": {"separated": 8, "concatenated": 12}}
STUDY = {
    "name": "letters",
    "title": "Letters <A–Z> & typefaces",
    "description": "Which letter is it?",
    "seeds": [0],
    "views": ["concatenated", "separated"],
    "datasets": {"glyphs": {"classes": {"every": 1}}},
    "protocol": {
        "model": {"backbone": {"name": "timm/test_resnet", "weights": "none"}, "head": {"class": "Linear", "dim": 16}},
        "sampler": {"class": "MPerClass", "batch": 8},
        "schedule": {"epochs": 3, "steps_per_epoch": 5, "evaluate_every": 1},
        "selection": {"role": "val", "metric": "MAP@R"},
        "evaluation": {"metrics": ["P@1", "MAP@R", "R@1", "R@2", "R@4"], "table": ["P@1", "MAP@R"]},
    },
    "methods": {
        "pretrained": {"label": "Pretrained", "folds": 1, "schedule": {"epochs": 0}, "reduction": REDUCTION},
        "triplet": {"label": "Triplet", "loss": {"class": "TripletMarginLoss"}},
        "sharp": {"label": "Sharp eyes", "loss": {"class": "ContrastiveLoss"}},
    },
}


def write_dataset(root):
    """images.csv and the packed images of 14 letters in 6 typefaces."""
    folder = make_glyphs(root / "images", classes=14, per_class=6, size=24)
    paths = sorted(folder.glob("*/*.png"))
    names = [path.parent.name for path in paths]
    labels = np.unique(names, return_inverse=True)[1]
    columns = {"path": [f"{path.parent.name}/{path.name}" for path in paths], "label": labels, "class_name": names}
    pd.DataFrame({**columns, "super_label": "", "role": ""}).to_csv(root / "images.csv", index=False)
    pack(read_index(root / "images.csv"), folder, None, root / "packed", index_sha256=sha256(root / "images.csv"))
    pixels = np.stack([np.asarray(Image.open(path).convert("RGB")) for path in paths])
    return pixels, labels


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """All files of the study as the workflow lays them out."""
    root = tmp_path_factory.mktemp("letters")
    pixels, labels = write_dataset(root)
    test = np.flatnonzero(labels >= 4)
    fold = {"train": np.flatnonzero(labels < 2).tolist(), "val": [], "test": test.tolist()}
    home = root / "results" / "letters" / "glyphs"
    write_json(home / "split.json", {"dataset": "glyphs", "folds": [fold, fold]})
    flat = pixels[test].astype(np.float32).mean(3).reshape(len(test), -1)
    found = {"evaluations": [], "histories": [], "runs": [], "embeddings": []}
    for number, method in enumerate(STUDY["methods"]):
        folds = []
        for place in range(1 if method == "pretrained" else 2):
            generator = np.random.default_rng([number, place])
            noise = {"pretrained": 0, "triplet": 600, "sharp": 20}[method]
            folds.append(flat + noise * generator.standard_normal(flat.shape).astype(np.float32))
            run = home / method / "seed0" / f"fold{place}"
            write_embeddings(run / "embeddings.safetensors", {"test": folds[-1]})
            epochs = range(1 if method == "pretrained" else 4)
            history = pd.DataFrame({"epoch": epochs, "step": [5 * epoch for epoch in epochs]})
            history["loss"] = [None if epoch == 0 else 1 / epoch for epoch in epochs]
            history["val_MAP@R"] = [0.2 + 0.1 * epoch for epoch in epochs]
            history.to_csv(run / "history.csv", index=False)
            record = {"fingerprint": "f" * 64, "best_epoch": 2, "best_value": 0.4, "epochs": 3, "device": "cpu"}
            write_json(run / "run.json", {**record, "wall_seconds": 61.0, "versions": {"torch": "2.13.0"}})
            found["embeddings"].append(run / "embeddings.safetensors")
            found["histories"].append(run / "history.csv")
            found["runs"].append(run / "run.json")
        for view in STUDY["views"]:
            names = STUDY["protocol"]["evaluation"]["metrics"]
            result = evaluate_view(view, folds, labels[test], names, STUDY["methods"][method].get("reduction"))
            write_json(home / method / "seed0" / f"{view}.json", {"view": view, **result})
            found["evaluations"].append(home / method / "seed0" / f"{view}.json")
    return root, assemble.Inputs(**found, split=home / "split.json", index=root / "images.csv", pack=root / "packed")


@pytest.fixture(scope="module")
def made(files):
    """Table, figures and page, written as the workflow writes them."""
    root, inputs = files
    home = root / "results" / "letters"
    table = assemble.table(STUDY, "glyphs", inputs)
    written = {home / "glyphs" / f"table.{end}": text for end, text in (("md", table.markdown()), ("csv", table.csv()))}
    for path, text in written.items():
        write_text(path, text)
    drawn = []
    for name in SHOWN:
        pair = [home / "figures" / f"glyphs_{name}.{end}" for end in ("png", "svg")]
        assemble.figure(name, STUDY, "glyphs", inputs, *pair)
        drawn += pair
    return table, drawn, assemble.page(STUDY, list(written), drawn, inputs.runs)


class Outline(HTMLParser):
    """What a page is made of: its tags, what they refer to, and whether they are closed in order."""

    VOID = {"meta", "img", "br", "link", "hr"}

    def __init__(self, text):
        super().__init__()
        self.tags, self.open, self.links, self.images, self.ids = [], [], [], [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        self.tags.append(tag)
        self.ids += [attributes["id"]] if "id" in attributes else []
        self.links += [attributes["href"]] if "href" in attributes else []
        self.images += [attributes] if tag == "img" else []
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_the_page_is_whole_and_needs_nothing_else(made):
    outline = Outline(made[2])
    assert outline.open == []
    assert len(outline.images) == len(SHOWN)
    assert all(image["src"].startswith("data:image/") and len(image["alt"]) > 20 for image in outline.images)
    assert all(link.startswith(("#", "data:")) for link in outline.links)
    assert not {"script", "link", "iframe"} & set(outline.tags)
    assert "url(" not in made[2] and "@import" not in made[2]


def test_every_link_inside_the_page_has_a_target_and_no_id_twice(made):
    outline = Outline(made[2])
    assert {link[1:] for link in outline.links if link.startswith("#")} <= set(outline.ids)
    assert len(outline.ids) == len(set(outline.ids))


def test_the_page_shows_the_table_the_runs_and_the_command(made):
    table, _, text = made
    assert table.html() in text
    assert "snakemake --cores all letters" in text
    assert text.count('<code title="' + "f" * 64) == 5
    assert "5 min 05 s" in text and "2.13.0" in text
    assert "Letters &lt;A–Z&gt; &amp; typefaces" in text and "<A–Z>" not in text


def test_the_page_serves_phones_dark_mode_and_print(made):
    for words in ("width=device-width", "prefers-color-scheme: dark", "@media print", 'lang="en"'):
        assert words in made[2]


def test_the_same_inputs_give_the_same_page(files, made):
    home = files[0] / "results" / "letters" / "glyphs"
    assert assemble.page(STUDY, [home / "table.csv", home / "table.md"], made[1], files[1].runs) == made[2]


def test_a_large_drawing_is_embedded_as_png(tmp_path):
    (tmp_path / "a.png").write_bytes(b"png")
    (tmp_path / "a.svg").write_bytes(b"<svg/>")
    shown = page.Figure("metrics", tmp_path / "a.png", tmp_path / "a.svg", "caption", "alt")
    assert shown.source.startswith("data:image/svg+xml")
    (tmp_path / "a.svg").write_bytes(b" " * (page.LARGEST_SVG + 1))
    assert shown.source.startswith("data:image/png")


def test_every_figure_has_a_caption_of_its_own():
    texts = {
        kind: page.caption(assemble.CAPTIONS / "figure.rst", study="letters", dataset="glyphs", figure=kind)
        for kind in assemble.FIGURES
    }
    assert len(set(texts.values())) == len(assemble.FIGURES) == len(page.TITLES)
    assert all("glyphs" in text and len(text) > 80 for text in texts.values())
    assert set(assemble.FIGURES) == set(page.TITLES)


@pytest.mark.parametrize("name", ["table", "page", "workflow"])
def test_the_other_captions_can_be_filled_in(name):
    assert len(page.caption(assemble.CAPTIONS / f"{name}.rst", study="letters", dataset="glyphs")) > 80


def test_a_missing_caption_is_named(tmp_path):
    with pytest.raises(UserError, match=r"figure\.rst is missing"):
        page.caption(tmp_path / "figure.rst")


def test_versions_that_differ_are_all_named():
    runs = [{"versions": {"torch": "2.13.0"}}, {"versions": {"torch": "2.14.0"}}, {}]
    assert page.versions(runs) == {"torch": "2.13.0, 2.14.0"}


@pytest.mark.parametrize(
    ("seconds", "text"), [(3.14, "3.1 s"), (62, "1 min 02 s"), (119.6, "2 min 00 s"), (7500, "2 h 05 min")]
)
def test_durations_are_for_people(seconds, text):
    assert page.duration(seconds) == text


def test_a_run_that_tells_little_is_shown_with_dashes():
    run = {"dataset": "glyphs", "method": "triplet", "seed": 0, "fold": 0}
    text = page.render(
        study="s", title="t", description="", sections=[], runs=[run], labels={"triplet": "Triplet"}, command="c"
    )
    assert text.count('<td class="number">—</td>') == 4


# from files to what is shown


def test_the_table_says_scale_backbone_and_sizes(files, made):
    caption = made[0].caption
    assert "glyphs: 60 test images of 10 classes, all of them unseen in training" in caption
    assert "timm/test_resnet" in caption and "3 epochs of 5 steps, 8 images a step" in caption
    measured = read_json(files[1].evaluations[0])["metrics"]["P@1"]
    first = made[0].frame.iloc[0]
    assert (first["method"], first["mean"]) == ("pretrained", 100 * measured)


def test_figures_search_the_same_embeddings_as_the_evaluation(files):
    _, inputs = files
    paths = results.embedding_files(inputs.embeddings)
    labels = labels_of(inputs)
    for method, own in STUDY["methods"].items():
        vectors = results.concatenated_view(paths[method], own.get("reduction"))
        place = next(path for path in inputs.evaluations if path.match(f"{method}/seed0/concatenated.json"))
        evaluation = read_json(place)
        assert vectors.shape[1] == evaluation["dim"]
        assert evaluate(vectors, labels, ["P@1"])["P@1"] == evaluation["metrics"]["P@1"]


def labels_of(inputs):
    index = pd.read_csv(inputs.index)
    return index["label"].to_numpy()[results.test_images(read_json(inputs.split))]


def test_the_best_trained_method_is_shown_against_the_untrained(files, tmp_path):
    _, inputs = files
    assert results.untrained_method(STUDY, "glyphs") == "pretrained"
    assert assemble.best(STUDY, "glyphs", inputs, "pretrained") == "sharp"
    drawn = assemble.figure("gallery", STUDY, "glyphs", inputs, tmp_path / "g.png", tmp_path / "g.svg")
    texts = [text.get_text() for text in drawn.axes[0].texts]
    assert texts.count("Pretrained") == texts.count("Sharp eyes") == assemble.QUERIES
    assert len(drawn.axes[0].images) == assemble.QUERIES * (1 + 2 * assemble.NEIGHBOURS)


def with_embeddings(inputs, folder, **roles):
    """The same files, whose embeddings also have these roles (name -> positions), each image by its label."""
    labels, paths = pd.read_csv(inputs.index)["label"].to_numpy(), []
    for path in inputs.embeddings:
        own = folder / Path(*Path(path).parts[-6:])
        given = {name: np.eye(14)[labels[images]] + 0.01 for name, images in roles.items()}
        write_embeddings(own, given if "query" in given else {**read_embeddings(path), **given})
        paths.append(own)
    return replace(inputs, embeddings=paths)


def test_distances_are_those_of_training_images_where_the_study_says_so(files, tmp_path):
    _, inputs = files
    train = read_json(inputs.split)["folds"][0]["train"]
    study = merge(STUDY, {"protocol": {"evaluation": {"distances": "train"}}})
    pair = (tmp_path / "d.png", tmp_path / "d.svg")
    with pytest.raises(UserError, match="no training images"):
        assemble.figure("distances", study, "glyphs", inputs, *pair)
    drawn = assemble.figure("distances", study, "glyphs", with_embeddings(inputs, tmp_path, train=train), *pair)
    assert {axis.get_xlabel() for axis in drawn.axes} == {"distance of two training images"}
    counts = drawn.axes[0].patches[0].get_data().values
    assert counts.sum() == len(train) * (len(train) - 1) / 2
    drawn = assemble.figure("distances", STUDY, "glyphs", inputs, *pair)
    assert {axis.get_xlabel() for axis in drawn.axes} == {"distance of two test images"}


def test_queries_are_searched_for_in_their_gallery(files, tmp_path, monkeypatch):
    _, inputs = files
    labels = pd.read_csv(inputs.index)["label"].to_numpy()
    test = np.array(read_json(inputs.split)["folds"][0]["test"])
    query, kept = test[::2], test[1::2]
    fold = {"train": [], "query": query.tolist(), "gallery": kept.tolist()}
    write_json(tmp_path / "split.json", {"dataset": "glyphs", "folds": [fold, fold]})
    inputs = replace(with_embeddings(inputs, tmp_path, query=query, gallery=kept), split=tmp_path / "split.json")
    asked = {}
    monkeypatch.setattr(assemble.gallery, "draw", lambda picture, *given, **rest: asked.update(given=given))
    plain = {key: value for key, value in STUDY["methods"]["pretrained"].items() if key != "reduction"}
    study = {**STUDY, "methods": {**STUDY["methods"], "pretrained": plain}}
    assemble.figure("gallery", study, "glyphs", inputs, tmp_path / "g.png", tmp_path / "g.svg")
    own, queries, found = asked["given"]
    assert list(own) == list(labels[np.concatenate((query, kept))])
    assert (queries < len(query)).all()
    assert all((rows >= len(query)).all() for rows in found.values())
    assert all((own[rows[:, 0]] == own[queries]).all() for rows in found.values())


def test_the_first_seed_is_shown_with_its_folds_in_order():
    paths = [f"r/s/d/m/seed{seed}/fold{fold}/embeddings.safetensors" for seed in (2, 1) for fold in (10, 9, 0)]
    assert results.embedding_files(paths) == {
        "m": [f"r/s/d/m/seed1/fold{fold}/embeddings.safetensors" for fold in (0, 9, 10)]
    }


def test_folds_with_other_test_images_are_refused():
    with pytest.raises(UserError, match="different test images"):
        results.test_images({"folds": [{"test": [1, 2]}, {"test": [2, 3]}]})


def test_an_unknown_figure_suggests_a_known_one(files, tmp_path):
    with pytest.raises(UserError, match="did you mean 'gallery'"):
        assemble.figure("galery", STUDY, "glyphs", files[1], tmp_path / "g.png", tmp_path / "g.svg")


def test_a_map_without_embeddings_says_what_is_missing(files, tmp_path):
    bare = assemble.Inputs(evaluations=files[1].evaluations, split=files[1].split, index=files[1].index)
    with pytest.raises(UserError, match="No embeddings of dataset 'glyphs'"):
        assemble.figure("map", STUDY, "glyphs", bare, tmp_path / "m.png", tmp_path / "m.svg")


def test_a_broken_history_is_named(tmp_path):
    path = tmp_path / "s" / "d" / "m" / "seed0" / "fold0" / "history.csv"
    path.parent.mkdir(parents=True)
    path.write_text("")
    with pytest.raises(UserError, match=r"fold0/history\.csv"):
        results.read_histories([path])
    path.write_text("a,b\n1,2\n")
    with pytest.raises(UserError, match="'epoch' and 'step'"):
        results.read_histories([path])


def test_quoted_tables_need_no_results(tmp_path):
    quotes = {"source": "Paper", "values": {"glyphs": {"triplet": {"separated": {"P@1": 12.5}}}}}
    quoted = targets.as_variant(STUDY, "published", [quotes])
    table = assemble.table(quoted, "glyphs", assemble.Inputs(published=quotes))
    assert "12.50" in table.markdown() and "Nothing was measured here" in table.caption
    assert isinstance(table, tables.Table)
    # so far, the same quotes stand beside rows that have not been run
    sofar = assemble.table(
        targets.as_variant(STUDY, "so_far", [quotes]), "glyphs", assemble.Inputs(published=quotes)
    ).markdown()
    assert "12.50" in sofar and "not run" in sofar


def test_a_page_of_nothing_so_far_says_so(tmp_path):
    sofar = targets.as_variant(STUDY, "so_far", [])
    made = assemble.table(sofar, "glyphs", assemble.Inputs())
    paths = [tmp_path / "letters_so_far" / "glyphs" / f"table.{end}" for end in ("csv", "md")]
    for path, text in zip(paths, (made.csv(), made.markdown()), strict=True):
        write_text(path, text)
    text = assemble.page(sofar, paths, [], [])
    assert "Nothing has been measured on glyphs yet." in text and text.count("<td") == text.count("not run</td>") + 3
    assert "snakemake --cores all letters_so_far" in text


def test_ranks_are_drawn_from_the_metric_that_selects_checkpoints(files, tmp_path):
    rows = {
        method: {view: {"MAP@R": value, "P@1": 1.0} for view in STUDY["views"]}
        for method, value in (("pretrained", 3.0), ("triplet", 2.0), ("sharp", 1.0))
    }
    inputs = assemble.Inputs(evaluations=files[1].evaluations, published={"source": "A", "values": {"glyphs": rows}})
    drawn = assemble.figure("ranks", STUDY, "glyphs", inputs, tmp_path / "r.png", tmp_path / "r.svg")
    titles = [axis.get_title() for axis in drawn.axes]
    assert len(titles) == 2 and all(title.startswith("MAP@R, ") and "n = 3" in title for title in titles)
    assert [label.get_text() for label in drawn.axes[0].get_yticklabels()] == ["Pretrained", "Triplet", "Sharp eyes"]


@pytest.mark.parametrize(
    ("backbone", "words"),
    [
        ({"name": "timm/resnet18", "weights": "none"}, "timm/resnet18 (random weights)"),
        ({"name": "bn_inception", "weights": "resources/weights/bn-52d.pth"}, "bn_inception (weights bn-52d.pth)"),
        ({"name": "efficientnet_lite0", "weights": "imagenet"}, "efficientnet_lite0 (imagenet weights)"),
        ({"name": "mine:network", "weights": "none"}, "mine:network"),
    ],
)
def test_the_caption_says_what_a_backbone_starts_from(backbone, words):
    study = {**STUDY, "protocol": {**STUDY["protocol"], "model": {"backbone": backbone}}}
    assert assemble.backbone(study, "glyphs") == words

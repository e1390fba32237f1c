"""A study's page, made from files via tables and figures, on a small real dataset.

The images are real (letters in several typefaces), the embeddings too (their pixels, blurred or not); the histories and
run records are made up.
"""

import json
import re
from copy import deepcopy
from html import unescape
from html.parser import HTMLParser
from pathlib import Path

import jinja2
import numpy as np
import pandas as pd
import pytest
from PIL import Image

from recheck.data.index import read_index
from recheck.data.packed import pack
from recheck.errors import UserError
from recheck.evaluation.embeddings import read_embeddings, write_embeddings
from recheck.evaluation.metrics import evaluate
from recheck.evaluation.views import evaluate_view
from recheck.files import read_json, sha256, write_json, write_text
from recheck.report import page, results
from recheck.report.figures import all_figures, gallery
from recheck.report.inputs import Inputs
from recheck.report.tables import Table
from support.datasets.glyphs import make_glyphs
from support.project import ROOT
from support.report.facts import facts

pytestmark = pytest.mark.slow

# all figures except those of query views and searches; some are only a note that there is nothing to draw
OTHERS = ("costs", "thresholds", "matches", "reliability", "search", "slices", "parallel", "importance")
OTHERS += ("best_so_far", "one_setting", "effort")
SHOWN = [name for name in all_figures() if name not in OTHERS]

REDUCTION = {"kind": "pca", "dims": {"separated": 8, "concatenated": 12}}
METHODS = {"pretrained": "Pretrained", "triplet": "Triplet", "sharp": "Sharp eyes"}
VIEWS, METRICS = ["concatenated", "separated"], ["P@1", "MAP@R", "R@1", "R@2", "R@4"]


def about(**changes):
    """The facts of the study, whose untrained row has a reduction."""
    options = {
        "study": "letters",
        "title": "Letters <A–Z> & typefaces",
        "description": "Which letter is it?",
        "command": "snakemake --cores all letters",
        "dataset": "glyphs",
        "backbone": "timm/test_resnet (random weights)",
        "scale": "trained for 3 epochs of 5 steps, 8 images per step",
        "selection_column": "val_MAP@R",
    }
    made = facts(METHODS, **{**options, **changes})
    made["rows"][0]["reduction"] = REDUCTION
    return made


FACTS = about()
PAGE = {key: FACTS[key] for key in ("study", "title", "description", "command", "scope")} | {
    "datasets": ["glyphs"],
    "titles": {"glyphs": "Letters in many typefaces"},
    "captions": {"glyphs": {name: figure.describe(FACTS) for name, figure in all_figures().items()}},
    "rows": FACTS["rows"],
    "quoted": [],
}


def draw(name, inputs, folder):
    return all_figures()[name].draw(inputs, folder / f"{name}.png", folder / f"{name}.svg")


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
    """All files of the study, in the layout of the workflow."""
    root = tmp_path_factory.mktemp("letters")
    pixels, labels = write_dataset(root)
    test = np.flatnonzero(labels >= 4)
    fold = {"train": np.flatnonzero(labels < 2).tolist(), "val": [], "test": test.tolist()}
    home = root / "results" / "letters" / "glyphs"
    write_json(home / "split.json", {"dataset": "glyphs", "folds": [fold, fold]})
    flat = pixels[test].astype(np.float32).mean(3).reshape(len(test), -1)
    inputs = {"evaluations": [], "histories": [], "runs": [], "embeddings": []}
    for number, method in enumerate(METHODS):
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
            inputs["embeddings"].append(run / "embeddings.safetensors")
            inputs["histories"].append(run / "history.csv")
            inputs["runs"].append(run / "run.json")
        for view in VIEWS:
            result = evaluate_view(view, folds, labels[test], METRICS, REDUCTION if method == "pretrained" else None)
            write_json(home / method / "seed0" / f"{view}.json", {"view": view, **result})
            inputs["evaluations"].append(home / method / "seed0" / f"{view}.json")
    inputs |= {"split": [home / "split.json"], "index": [root / "images.csv"]}
    return root, {**inputs, "pack": [root / "packed" / "pack.json"]}


@pytest.fixture(scope="module")
def made(files):
    """Table, figures and page, written as the workflow writes them."""
    root, inputs = files
    home = root / "results" / "letters"
    table = Inputs(FACTS, inputs).table
    write_json(home / "glyphs" / "table.json", table.json())
    drawn = []
    for name in SHOWN:
        figure = all_figures()[name]
        pair = [home / "figures" / f"glyphs_{name}.{end}" for end in ("png", "svg")]
        figure.draw(Inputs(FACTS, {kind: inputs[kind] for kind in figure.needs}), *pair)
        drawn += pair
    return table, drawn, page.make(PAGE, [home / "glyphs" / "table.json"], drawn, inputs["runs"])


class Outline(HTMLParser):
    """The tags, links, images and ids of a page; asserts that tags are closed in order."""

    VOID = {"meta", "img", "br", "link", "hr"}

    def __init__(self, text):
        super().__init__()
        self.tags, self.open, self.links, self.images, self.drawings, self.ids = [], [], [], [], [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        self.tags.append(tag)
        self.ids += [attributes["id"]] if "id" in attributes else []
        self.links += [attributes["href"]] if "href" in attributes else []
        self.images += [attributes] if tag == "img" else []
        self.drawings += [attributes] if tag == "svg" else []
        assert tag != "script" or "src" not in attributes
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_the_page_is_complete_and_self_contained(made):
    outline = Outline(made[2])
    assert outline.open == []
    assert len(outline.images) + len(outline.drawings) == len(SHOWN)
    assert all(image["src"].startswith("data:image/") and len(image["alt"]) > 20 for image in outline.images)
    assert all(link.startswith(("#", "data:")) for link in outline.links)
    assert all(drawing["role"] == "img" and len(drawing["aria-label"]) > 20 for drawing in outline.drawings)
    assert not {"link", "iframe"} & set(outline.tags)
    assert set(re.findall(r"url\((.)", made[2])) <= {"#"} and "@import" not in made[2]


def test_figures_with_values_are_part_of_the_page_and_name_every_mark(made):
    outline = Outline(made[2])
    values = [json.loads(unescape(text)) for text in re.findall(r'<metadata class="values">(.*?)</metadata>', made[2])]
    assert len(values) == len(outline.drawings) == 3, "metrics, recall and curves"
    assert all(0 < x < 1 and 0 < y < 1 for points in values for x, y, _ in points)
    assert len(values[0]) == 3 * 2 * 2 and values[0][0][2].startswith("Pretrained, concatenated\nP@1 ")
    assert "Sharp eyes, concatenated\nR@4" in "".join(text for *_, text in values[1])
    assert [text.splitlines()[1] for *_, text in values[2]][:2] == ["step 0: 20.00", "step 5: 30.00"]


def test_every_internal_link_has_a_target_and_ids_are_unique(made):
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


def test_the_page_supports_phones_dark_mode_and_print(made):
    for words in ("width=device-width", "prefers-color-scheme: dark", "@media print", 'lang="en"'):
        assert words in made[2]


def test_the_same_inputs_give_the_same_page(files, made):
    home = files[0] / "results" / "letters" / "glyphs"
    assert page.make(PAGE, [home / "table.json"], made[1], files[1]["runs"]) == made[2]


def test_a_large_svg_is_replaced_by_the_png(tmp_path):
    (tmp_path / "a.png").write_bytes(b"png")
    (tmp_path / "a.svg").write_bytes(b"<svg/>")
    shown = page.Picture("metrics", "Metrics", tmp_path / "a.png", tmp_path / "a.svg", "caption", "alt")
    assert shown.source.startswith("data:image/svg+xml")
    (tmp_path / "a.svg").write_bytes(b" " * (page.LARGEST_SVG + 1))
    assert shown.source.startswith("data:image/png")


def test_every_figure_has_its_own_title_and_caption(made):
    texts = {
        figure.describe({**FACTS, "generalisation_columns": ["train_R@1", "R@1"]}) for figure in all_figures().values()
    }
    assert len(texts) == len({figure.title for figure in all_figures().values()}) == len(all_figures())
    assert all("glyphs" in text and "{" not in text and len(text) > 80 for text in texts)
    assert all(f">{all_figures()[name].title}</h3>" in made[2] for name in SHOWN)


def test_the_page_shows_the_full_name_of_a_dataset(made):
    assert '<h2 id="glyphs">Letters in many typefaces</h2>' in made[2]


def test_a_caption_explains_only_what_is_shown():
    quoted = [{"source": "Paper", "values": {"glyphs": {"triplet": {"separated": {"P@1": 50.0}}}}}]
    metrics = all_figures()["metrics"]
    assert "published" not in metrics.describe(FACTS) and "intervals" not in metrics.describe(FACTS)
    assert "The vertical lines mark the untrained model." in metrics.describe(FACTS)
    both = metrics.describe(about(seeds=2, quoted=quoted, reference=None))
    assert "hollow marks are published values" in both and "95 % t-intervals" in both
    assert "vertical lines" not in both
    only_published = metrics.describe(about(quoted=quoted, scope="published"))
    assert "All values are published." in only_published and "measured" not in only_published
    assert "untrained model (Pretrained)" in all_figures()["gallery"].describe(FACTS)
    assert "untrained" not in all_figures()["gallery"].describe(about(reference=None))


@pytest.mark.parametrize("name", ["table", "page", "workflow", "figure"])
def test_captions_of_the_report_can_be_filled_in(name):
    text = (ROOT / "workflow" / "report" / f"{name}.rst").read_text(encoding="utf-8")
    wildcards, params = (
        {"study": "letters", "dataset": "glyphs"},
        {"caption": all_figures()["map"].describe(FACTS), "facts": FACTS},
    )
    template = jinja2.Template(text, undefined=jinja2.StrictUndefined)
    assert len(template.render(snakemake={"wildcards": wildcards, "params": params})) > 80


def test_versions_that_differ_are_all_named():
    runs = [{"versions": {"torch": "2.13.0"}}, {"versions": {"torch": "2.14.0"}}, {}]
    assert page.versions(runs) == {"torch": "2.13.0, 2.14.0"}


@pytest.mark.parametrize(
    ("seconds", "text"), [(3.14, "3.1 s"), (62, "1 min 02 s"), (119.6, "2 min 00 s"), (7500, "2 h 05 min")]
)
def test_durations_are_readable(seconds, text):
    assert page.duration(seconds) == text


def test_missing_values_of_a_run_are_dashes():
    run = {"dataset": "glyphs", "method": "triplet", "seed": 0, "fold": 0}
    text = page.render(
        study="s", title="t", description="", sections=[], runs=[run], labels={"triplet": "Triplet"}, command="c"
    )
    assert text.count('<td class="number">—</td>') == 4


# from files to tables and figures


def test_the_caption_names_scale_backbone_and_sizes(files, made):
    caption = made[0].caption
    assert "glyphs: 60 test images of 10 classes, all unseen in training" in caption
    assert "timm/test_resnet" in caption and "3 epochs of 5 steps, 8 images per step" in caption
    measured = read_json(files[1]["evaluations"][0])["metrics"]["P@1"]
    first = made[0].frame.iloc[0]
    assert (first["method"], first["mean"]) == ("pretrained", 100 * measured)


def test_figures_search_the_same_embeddings_as_the_evaluation(files):
    inputs = files[1]
    paths = results.embedding_files(inputs["embeddings"])
    labels = labels_of(inputs)
    for method in METHODS:
        vectors = results.concatenated_view(paths[method], REDUCTION if method == "pretrained" else None)
        place = next(path for path in inputs["evaluations"] if path.match(f"{method}/seed0/concatenated.json"))
        evaluation = read_json(place)
        assert vectors.shape[1] == evaluation["dim"]
        assert evaluate(vectors, labels, ["P@1"])["P@1"] == evaluation["metrics"]["P@1"]


def labels_of(paths):
    index = pd.read_csv(paths["index"][0])
    return index["label"].to_numpy()[results.test_images(read_json(paths["split"][0]))]


def test_the_best_trained_method_is_shown_against_the_untrained(files, tmp_path):
    inputs = Inputs(FACTS, files[1])
    assert inputs.best == "sharp"
    drawn = draw("gallery", inputs, tmp_path)
    texts = [text.get_text() for text in drawn.axes[0].texts]
    assert texts.count("Pretrained") == texts.count("Sharp eyes") == gallery.QUERIES
    assert len(drawn.axes[0].images) == gallery.QUERIES * (1 + 2 * gallery.NEIGHBOURS)


def with_embeddings(inputs, folder, **roles):
    """The same files with embeddings of more roles (name → positions), which encode the label of each image."""
    labels, paths = pd.read_csv(inputs["index"][0])["label"].to_numpy(), []
    for path in inputs["embeddings"]:
        target = folder / Path(*Path(path).parts[-6:])
        given = {name: np.eye(14)[labels[images]] + 0.01 for name, images in roles.items()}
        write_embeddings(target, given if "query" in given else {**read_embeddings(path), **given})
        paths.append(target)
    return {**inputs, "embeddings": paths}


def test_distances_use_training_images_if_the_study_says_so(files, tmp_path):
    inputs = files[1]
    train = read_json(inputs["split"][0])["folds"][0]["train"]
    trained = about(distances="train")
    with pytest.raises(UserError, match="no training images"):
        draw("distances", Inputs(trained, inputs), tmp_path)
    drawn = draw("distances", Inputs(trained, with_embeddings(inputs, tmp_path, train=train)), tmp_path)
    assert {axis.get_xlabel() for axis in drawn.axes} == {"distance between two training images"}
    counts = drawn.axes[0].patches[0].get_data().values
    assert counts.sum() == len(train) * (len(train) - 1) / 2
    drawn = draw("distances", Inputs(FACTS, inputs), tmp_path)
    assert {axis.get_xlabel() for axis in drawn.axes} == {"distance between two test images"}


def test_queries_search_their_gallery(files, tmp_path, monkeypatch):
    inputs = files[1]
    labels = pd.read_csv(inputs["index"][0])["label"].to_numpy()
    test = np.array(read_json(inputs["split"][0])["folds"][0]["test"])
    query, kept = test[::2], test[1::2]
    fold = {"train": [], "query": query.tolist(), "gallery": kept.tolist()}
    write_json(tmp_path / "split.json", {"dataset": "glyphs", "folds": [fold, fold]})
    inputs = {**with_embeddings(inputs, tmp_path, query=query, gallery=kept), "split": [tmp_path / "split.json"]}
    asked = {}
    monkeypatch.setattr(gallery, "draw", lambda picture, *given, **rest: asked.update(given=given))
    plain = deepcopy(FACTS)
    plain["rows"][0]["reduction"] = None
    draw("gallery", Inputs(plain, inputs), tmp_path)
    given_labels, queries, neighbours = asked["given"]
    assert list(given_labels) == list(labels[np.concatenate((query, kept))])
    assert (queries < len(query)).all()
    assert all((rows >= len(query)).all() for rows in neighbours.values())
    assert all((given_labels[rows[:, 0]] == given_labels[queries]).all() for rows in neighbours.values())


def test_the_first_seed_is_shown_with_its_folds_in_order():
    paths = [f"r/s/d/m/seed{seed}/fold{fold}/embeddings.safetensors" for seed in (2, 1) for fold in (10, 9, 0)]
    assert results.embedding_files(paths) == {
        "m": [f"r/s/d/m/seed1/fold{fold}/embeddings.safetensors" for fold in (0, 9, 10)]
    }


def test_folds_with_different_test_images_are_an_error():
    with pytest.raises(UserError, match="different test images"):
        results.test_images({"folds": [{"test": [1, 2]}, {"test": [2, 3]}]})


def test_a_map_without_embeddings_says_what_is_missing(files, tmp_path):
    bare = {kind: files[1][kind] for kind in ("evaluations", "split", "index")}
    with pytest.raises(UserError, match="No embeddings found for dataset 'glyphs'"):
        draw("map", Inputs(FACTS, bare), tmp_path)


def test_a_broken_history_is_an_error_with_its_path(tmp_path):
    path = tmp_path / "s" / "d" / "m" / "seed0" / "fold0" / "history.csv"
    path.parent.mkdir(parents=True)
    path.write_text("")
    with pytest.raises(UserError, match=r"fold0/history\.csv"):
        results.read_histories([path])
    path.write_text("a,b\n1,2\n")
    with pytest.raises(UserError, match="'epoch' and 'step'"):
        results.read_histories([path])


QUOTES = {"source": "Paper", "values": {"glyphs": {"triplet": {"separated": {"P@1": 12.5}}}}}


def test_quoted_tables_need_no_results():
    table = Inputs(about(scope="published", quoted=[QUOTES]), {}).table
    assert "12.50" in table.markdown() and "Nothing was measured here" in table.caption
    assert isinstance(table, Table)
    # in the results so far, the same published values are next to rows that have not been run
    sofar = Inputs(about(scope="so_far", quoted=[QUOTES], measured=[]), {}).table.markdown()
    assert "12.50" in sofar and "not run" in sofar


def test_a_page_of_nothing_so_far_says_so(tmp_path):
    sofar = about(scope="so_far", measured=[])
    write_json(tmp_path / "table.json", Inputs(sofar, {}).table.json())
    named = {**PAGE, "study": "letters_so_far", "command": "snakemake --cores all letters_so_far", "scope": "so_far"}
    text = page.make(named, [tmp_path / "table.json"], [], [])
    assert "Nothing has been measured on glyphs yet." in text and text.count("<td") == text.count("not run</td>") + 3
    assert "snakemake --cores all letters_so_far" in text


def test_the_page_says_why_runs_failed(tmp_path):
    log = tmp_path / "logs" / "letters" / "glyphs" / "triplet" / "seed0" / "fold1" / "train.failed"
    write_text(log, "The loss became nan at step 1 <here>.")
    made = Inputs(about(scope="so_far", measured=[]), {"failures": [log]}).table
    write_json(tmp_path / "table.json", made.json())
    text = page.make(PAGE, [tmp_path / "table.json"], [], [])
    assert "<li>failed: Triplet (seed 0, fold 1, train): The loss became nan at step 1 &lt;here&gt;.</li>" in text
    assert text.count("failed</td>") == 4


def test_ranks_are_drawn_from_the_metric_that_selects_checkpoints(files, tmp_path):
    rows = {
        method: {view: {"MAP@R": value, "P@1": 1.0} for view in VIEWS}
        for method, value in (("pretrained", 3.0), ("triplet", 2.0), ("sharp", 1.0))
    }
    quoted = about(quoted=[{"source": "A", "values": {"glyphs": rows}}])
    drawn = draw("ranks", Inputs(quoted, {"evaluations": files[1]["evaluations"]}), tmp_path)
    titles = [axis.get_title() for axis in drawn.axes]
    assert len(titles) == 2 and all(title.startswith("MAP@R, ") and "n = 3" in title for title in titles)
    assert [label.get_text() for label in drawn.axes[0].get_yticklabels()] == ["Pretrained", "Triplet", "Sharp eyes"]

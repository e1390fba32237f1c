"""A study of a few lines on top of another, and a part of a study."""

import html
import json

from support.project.studies import shipped


def test_three_methods_of_three_papers_in_five_lines(project):
    """What defines each method reaches its training, as in the study of its paper."""
    project.write(
        "config/studies/three.yaml",
        """\
        base: letters
        keep: []
        title: Three papers, one protocol
        methods: {contrastive_within_pair: , norm_proxy: {precision: bfloat16}, hybrid: {precision: float16}}
        """,
    )
    papers = {"contrastive_within_pair": "mlrc", "norm_proxy": "unbiased", "hybrid": "contextual_256"}
    records = {row: f"results/three/glyphs/{row}/seed0/fold0/run.json" for row in papers}
    project.succeed("--cores", "2", "--", *records.values())
    for row, paper in papers.items():
        trained = json.loads(project.read(records[row]))["configuration"]
        published = shipped(paper).run("cub200", row).training
        assert trained["loss"]["class"] == published["loss"]["class"]
        assert trained.get("forward") == published.get("forward")
        assert trained["model"].get("channel_dropout") == published["model"].get("channel_dropout")
        assert trained["model"]["backbone"]["name"] == "small_net:SmallNet", "the protocol decides this"
    trained = json.loads(project.read(records["norm_proxy"]))["configuration"]
    assert trained["model"]["head"]["class"] == "NormProxyHead" and trained["precision"] == "bfloat16"

    project.edit(
        "config/studies/three.yaml",
        "contrastive_within_pair: ,",
        "contrastive_within_pair: {model: {channel_dropout: 0}},",
    )
    message = project.fail("--dry-run", "--", "three")
    assert "'model.channel_dropout' is none, but it is some in method 'contrastive_within_pair'" in message


def test_a_restricted_call_keeps_the_report_of_the_whole_study(project):
    """`--config methods=[…]` writes a separate report, which names the command; the whole study stays finished."""
    reports = [path for path in project.path("results/letters").rglob("*") if path.suffix in (".html", ".md", ".png")]
    before = {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in reports}
    output = project.succeed("--cores", "2", "--config", "methods=[triplet]")
    assert "so its report is results/letters_selected_triplet/index.html" in output
    assert {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in reports} == before
    page = html.unescape(project.read("results/letters_selected_triplet/index.html"))
    assert "snakemake --cores all letters --config 'methods=[triplet]'" in page
    assert "1 of 3 rows" in page and "1 row on glyphs, 1 seed." in page
    assert "3 rows on glyphs, 1 seed." in project.read("results/letters/index.html"), "the study gives no description"
    table = project.read("results/letters_selected_triplet/glyphs/table.csv")
    assert len(table.splitlines()) == 2
    assert project.planned() == project.planned("--config", "methods=[triplet]") == {}
    # the runs of another variant must be trained
    project.edit(
        "config/studies/letters.yaml", "methods:\n", "variants: {code: {protocol: {precision: bfloat16}}}\nmethods:\n"
    )
    assert project.planned("--config", "variant=code")["train"] == 5
    assert project.planned() == {}


def test_the_same_run_of_another_study_is_copied(project):
    """An identical run is copied; `reuse=false` trains it again, to the same bits."""
    project.write("config/studies/mine.yaml", "base: letters\nkeep: [triplet]\n")
    theirs, ours = (f"results/{study}/glyphs/triplet/seed0/fold0" for study in ("letters", "mine"))
    project.succeed("--cores", "1", "--", f"{ours}/run.json")
    record, original = (json.loads(project.read(f"{run}/run.json")) for run in (ours, theirs))
    assert record["reused_from"] == theirs and record["study"] == "mine"
    for key in ("fingerprint", "configuration", "data", "own_files", "best_epoch", "versions"):
        assert record[key] == original[key]
    for name in ("model.safetensors", "history.csv", "code/small_net.py"):
        assert project.path(f"{ours}/{name}").read_bytes() == project.path(f"{theirs}/{name}").read_bytes()
    assert "Reused the same run" in project.read("logs/mine/glyphs/triplet/seed0/fold0/train.log")
    assert project.planned("--", f"{ours}/run.json") == {}
    # the title is generated, because the base's would be false
    project.succeed("--cores", "1", "mine_so_far")
    assert "<title>Study mine – Triplet on glyphs" in project.read("results/mine_so_far/index.html")
    # redone on request, or because the other run has changed
    project.succeed("--cores", "1", f"{ours}/run.json", "--forcerun", f"{ours}/run.json", "--config", "reuse=false")
    assert "reused_from" not in json.loads(project.read(f"{ours}/run.json"))
    same = project.path(f"{theirs}/model.safetensors").read_bytes()
    assert project.path(f"{ours}/model.safetensors").read_bytes() == same


def test_a_sweep_over_numbers_and_words(project):
    values = "{0.05: {loss: {margin: 0.05}}, 1e-4: {loss: {margin: 1e-4}}, Wide: {loss: {margin: 1}}}"
    project.write(
        "config/studies/swept.yaml",
        f"base: letters\nsweep: {{label: Margin, methods: [triplet], values: {values}}}\n",
    )
    assert project.planned("swept")["train"] == 6
    assert project.planned("--", "results/swept/glyphs/triplet_0.05/seed0/separated.json")["train"] == 2

"""A failed run is shown as failed, with the reason, until it succeeds."""

HOPELESS = """
from pytorch_metric_learning.losses import TripletMarginLoss


class Hopeless(TripletMarginLoss):
    def forward(self, *arguments):
        return super().forward(*arguments) * float("nan")
"""
ROW = """  hopeless:
    label: Hopeless
    members: 1
    loss: {class: "hopeless:Hopeless"}
"""
RUN = "results/letters/glyphs/hopeless/seed0"
REASON = "The loss became nan at step 1"


def test_a_failed_row_shows_the_reason_until_it_succeeds(project):
    project.write("hopeless.py", HOPELESS)
    project.write("config/studies/letters.yaml", project.read("config/studies/letters.yaml").rstrip() + "\n" + ROW)
    output = project.fail("--cores", "2", "--retries", "3", f"{RUN}/fold0/model.safetensors")
    assert REASON in output and "Trying to restart job" not in output, "only the user can correct this"
    log = project.path("logs/letters/glyphs/hopeless/seed0/fold0/train.failed")
    assert log.read_text(encoding="utf-8").startswith(REASON) and log.read_text(encoding="utf-8").count("\n") == 2

    project.succeed("--cores", "1", "letters_so_far")
    table = project.read("results/letters_so_far/glyphs/table.md")
    row = next(line for line in table.splitlines() if line.startswith("| Hopeless"))
    assert row.count("failed") == 6 and "not run" not in row
    assert f"Hopeless (seed 0, fold 0, train): {REASON}" in table
    for name in ("glyphs/table.tex", "glyphs/table.csv", "index.html"):
        assert REASON in project.read(f"results/letters_so_far/{name}"), name

    project.write("hopeless.py", HOPELESS.replace(' * float("nan")', ""))
    project.succeed("--cores", "2", f"{RUN}/separated.json", f"{RUN}/concatenated.json")
    assert not log.exists()
    project.succeed("--cores", "1", "results/letters_so_far/glyphs/table.md")
    assert "failed" not in project.read("results/letters_so_far/glyphs/table.md")

"""A small study with two datasets for tests of the site: real files, read by the real code."""

from recheck.files import write_json
from recheck.report.site.collect import Site
from support.report.facts import facts

BIBTEX = "@article{key%d,\n  title = {Paper %d},\n  author = {A. Author},\n  year = {2020}\n}\n"
DATASETS = {"birds": "Birds (Caltech)", "cars": "Cars"}
# method → mean of P@1 in percent, and what each further seed adds
VALUES = {"plain": (40, 1.0), "triplet": (50, 0.5), "proxy": (60, -1.0)}


def paper(number):
    about = {"authors": "A. Author", "title": f"Paper {number}", "venue": "CVPR", "year": 2020}
    return {**about, "bibtex": BIBTEX % (number, number), "link": f"https://example.org/{number}"}


def document(**changes):
    values = {"triplet": {"separated": {"P@1": 51.25}}, "proxy": {"separated": {"P@1": 57.5, "MAP@R": 30.0}}}
    unmeasured = {"quoted": {"separated": {"P@1": 70.1}}}
    given = {"birds": {**values, **unmeasured}, "cars": {"triplet": {"separated": {"P@1": 66.0}}}}
    return {
        "source": "Paper 9",
        "paper": paper(9),
        "values": given,
        "notes": {"birds": {"proxy": "One run."}},
        **changes,
    }


def add_study(site, folder, name="small", labels=None, reason=None, **about):
    """Write the files of a study below ``folder`` and add it to the site."""
    labels = {"plain": "Plain", "triplet": "Triplet", "proxy": "Proxy", "quoted": "Quoted", **(labels or {})}
    families = {"plain": "untrained", "triplet": "triplets", "proxy": "proxies", "quoted": None}
    datasets, number = {}, {"birds": 0, "cars": 7}
    for dataset in DATASETS:
        files = {"evaluations": [], "runs": [], "failures": []}
        for method, (mean, step) in VALUES.items():
            for seed in range(3):
                home = folder / name / dataset / method / f"seed{seed}"
                folds = [(mean + number[dataset] + seed * step + fold) / 100 for fold in (-0.25, 0.25)]
                metrics = {"P@1": sum(folds) / 2, "MAP@R": sum(folds) / 4}
                single = [{"P@1": value, "MAP@R": value / 2} for value in folds]
                record = {"view": "separated", "dim": 64, "metrics": metrics, "folds": single}
                write_json(home / "separated.json", record)
                files["evaluations"].append(str(home / "separated.json"))
                for fold in range(2):
                    run = {
                        "fingerprint": f"{seed}{fold}" * 32,
                        "configuration": {"loss": {"class": "TripletMarginLoss", "margin": 0.125}},
                        "data": {"split": "ab" * 32, "pixels": "cd" * 32},
                        "device": "cpu",
                        "versions": {"torch": "2.13.0"},
                        "wall_seconds": 75.0,
                        "best_epoch": 3,
                    }
                    write_json(home / f"fold{fold}" / "run.json", run)
                    files["runs"].append(str(home / f"fold{fold}" / "run.json"))
        if reason:
            failed = folder / "logs" / name / dataset / "quoted" / "seed0" / "fold0" / "train.failed"
            failed.parent.mkdir(parents=True, exist_ok=True)
            failed.write_text(reason, encoding="utf-8")
            files["failures"].append(str(failed))
        known = facts(labels, seeds=3, quoted=[document()], dataset=dataset, study=name, views=["separated"])
        datasets[dataset] = {**known, "scope": "so_far"}, files
    rows = [
        {
            "name": method,
            "label": label,
            "family": families[method],
            "paper": paper(place),
            "backbone": "resnet50",
            "dims": {"separated": 64},
        }
        for place, (method, label) in enumerate(labels.items())
    ]
    page = {
        "study": name,
        "title": f"Study {name}",
        "description": "",
        "command": f"snakemake --cores all {name}",
        "titles": DATASETS,
        "rows": rows,
        "quoted": [{"source": document()["source"], "paper": paper(9)}],
    }
    site.add({**page, **about}, datasets)
    return site


def small_site(folder, **options):
    return add_study(Site(), folder, **options)

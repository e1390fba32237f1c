"""Calibrate a run's distance thresholds on seen and unseen queries, and write what users of its model need."""

from pathlib import Path

from recheck.data.index import read_index
from recheck.data.splits import read_split
from recheck.evaluation.calibration import evaluation_json
from recheck.evaluation.embeddings import read_embeddings
from recheck.evaluation.query_sets import findings, query_sets
from recheck.files import sha256, write_json
from recheck.job import job
from recheck.training.gpus import hide_gpus

with job(snakemake) as log:
    hide_gpus()  # this job has reserved no GPU
    source, output, wildcards = snakemake.input, snakemake.output, snakemake.wildcards
    configuration = snakemake.params.configuration
    embeddings = read_embeddings(source.embeddings)
    split, labels = read_split(source.split, 0), read_index(source.index)["label"].to_numpy()
    sets = query_sets(
        embeddings,
        split,
        labels,
        configuration["metrics"],
        configuration.get("calibration", "fixed"),
    )
    run = {**{key: wildcards[key] for key in ("study", "dataset", "method")}, "seed": int(wildcards.seed)}
    warnings = findings(sets, embeddings, split, labels)
    for finding in (finding for of_set in warnings.values() for finding in of_set):
        log.warning("%s, seed %s: %s", wildcards.method, wildcards.seed, finding["text"])
    results = {name: queries.metrics(configuration["metrics"]) for name, queries in sets.items()}
    for name, metrics in results.items():
        dim = embeddings[name].shape[1]
        write_json(output[name], {**run, "view": name, "dim": dim, "metrics": metrics, "warnings": warnings[name]})
    blocks = {
        name: (queries.calibration, {key: value for key, value in results[name].items() if key.startswith("R@")})
        for name, queries in sets.items()
    }
    write_json(output.evaluation, evaluation_json(wildcards.method, wildcards.dataset, blocks))
    write_json(
        output.calibration,
        {
            **run,
            "model": Path(source.model).relative_to(Path(output.calibration).parent).as_posix(),
            "model_sha256": sha256(source.model),
            "transforms": snakemake.params.transforms,
            "images": snakemake.params.images,
            "thresholds": {name: queries.as_json() for name, queries in sets.items()},
        },
    )

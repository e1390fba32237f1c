# doctor: check this machine before a long run. Makes no files.


rule doctor:
    log:
        "<logs>/doctor.log",
    localrule: True
    conda:
        "../../envs/train.yaml"
    threads: 1
    params:
        folders={"results": RESULTS, "resources": RESOURCES},
        described=[str(path) for path in (*DATASETS.values(), *WEIGHTS.values())],
        row=lambda wildcards: first_trained_row(config["study"]),
        minutes=lambda wildcards: longest_limits(config["study"]),
        submitted=lambda wildcards: submitted(workflow, sys.argv[1:]),
        runs=max(1, len(GPUS) * config["gpu_share"]),
        run_threads=WANTED_THREADS,
    message:
        "Checking this machine"
    script:
        "../scripts/doctor.py"

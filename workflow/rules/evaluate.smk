# evaluate: metrics of both views from the folds' embeddings, in one job because starting a job takes longer than
# evaluating a view
# evaluate_epochs: the same for studies that select their runs on the test set
# evaluate_model: the same for studies that compare the backbone's features with the head's embeddings
# calibrate: one threshold for queries of trained classes and one for queries of unseen classes, against the same index


rule evaluate:
    input:
        unpack(
            lambda wildcards: evaluation_files(
                study_of(wildcards.study), wildcards.dataset, wildcards.method, wildcards.seed
            )
        ),
        index="<resources>/datasets/{dataset}/images.csv",
        split="<results>/{study}/{dataset}/split.json",
    output:
        **{view: f"<results>/{EXPERIMENT}/{view}.json" for view in FOLD_VIEWS},
    log:
        "<logs>/{study}/{dataset}/{method}/seed{seed}/evaluate.log",
    benchmark:
        "<logs>/{study}/{dataset}/{method}/seed{seed}/evaluate.tsv"
    conda:
        "../../envs/evaluate.yaml"
    threads: 1
    resources:
        mem_mb=growing(4000),
        runtime=growing(20),
    params:
        configuration=lambda wildcards: run_of(wildcards).evaluation,
    message:
        "Evaluating {wildcards.method} on {wildcards.dataset}, seed {wildcards.seed}"
    script:
        "../scripts/evaluate.py"


use rule evaluate as evaluate_epochs with:
    output:
        **{view: f"<results>/{EXPERIMENT}/{view}.json" for view in EPOCH_VIEWS},
    log:
        "<logs>/{study}/{dataset}/{method}/seed{seed}/evaluate_epochs.log",
    benchmark:
        "<logs>/{study}/{dataset}/{method}/seed{seed}/evaluate_epochs.tsv"
    # NMI as in published protocols takes hours for thousands of classes and dimensions.
    resources:
        mem_mb=growing(8000),
        runtime=growing(240),


use rule evaluate as evaluate_model with:
    output:
        **{view: f"<results>/{EXPERIMENT}/{view}.json" for view in MODEL_VIEWS},
    log:
        "<logs>/{study}/{dataset}/{method}/seed{seed}/evaluate_model.log",
    benchmark:
        "<logs>/{study}/{dataset}/{method}/seed{seed}/evaluate_model.tsv"
    # a hyperbolic search compares every image with all others in float64
    resources:
        mem_mb=growing(4000),
        runtime=growing(60),


rule calibrate:
    input:
        index="<resources>/datasets/{dataset}/images.csv",
        split="<results>/{study}/{dataset}/split.json",
        model="<results>/{study}/{dataset}/{method}/seed{seed}/fold0/model.safetensors",
        embeddings="<results>/{study}/{dataset}/{method}/seed{seed}/fold0/embeddings.safetensors",
    output:
        seen_queries="<results>/{study}/{dataset}/{method}/seed{seed}/seen_queries.json",
        unseen_queries="<results>/{study}/{dataset}/{method}/seed{seed}/unseen_queries.json",
        evaluation="<results>/{study}/{dataset}/{method}/seed{seed}/evaluation.json",
        calibration="<results>/{study}/{dataset}/{method}/seed{seed}/calibration.json",
    log:
        "<logs>/{study}/{dataset}/{method}/seed{seed}/calibrate.log",
    benchmark:
        "<logs>/{study}/{dataset}/{method}/seed{seed}/calibrate.tsv"
    conda:
        "../../envs/evaluate.yaml"
    threads: 1
    resources:
        mem_mb=growing(4000),
        runtime=growing(20),
    params:
        configuration=lambda wildcards: run_of(wildcards).evaluation,
        transforms=lambda wildcards: run_of(wildcards).eval_transforms,
        images=lambda wildcards: dataset_of(wildcards.dataset).image_reading,
    message:
        "Calibrating {wildcards.method} on {wildcards.dataset}, seed {wildcards.seed}"
    script:
        "../scripts/calibrate.py"

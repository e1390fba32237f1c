# fetch → verify → extract → index → pack: a dataset from its sources to a memory map, once for all studies


# Where the command is typed: a cluster's compute nodes often have no internet, and what was dropped here is here.
localrules:
    fetch,
    fetch_weights,
    fetch_released,


rule data:
    input:
        data_indices,


rule fetch:
    output:
        "<resources>/datasets/{dataset}/downloads/{file}",
    log:
        "<logs>/datasets/{dataset}/fetch/{file}.log",
    benchmark:
        "<logs>/datasets/{dataset}/fetch/{file}.tsv"
    conda:
        "../../envs/data.yaml"
    threads: 1
    resources:
        mem_mb=growing(1000),
        runtime=1440,
    params:
        # one checksum alone: a new mirror, another word or one more checksum in the YAML does not fetch again
        checksum=lambda wildcards: file_entry(wildcards).get("md5") or file_entry(wildcards).get("sha256"),
        yaml=lambda wildcards: str(DATASET_FILES[wildcards.dataset]),
        drop=lambda wildcards: drop_folder(wildcards.dataset),
    message:
        "Fetching {wildcards.file} of {wildcards.dataset}"
    script:
        "../scripts/fetch.py"


rule fetch_weights:
    output:
        "<resources>/weights/{file}",
    log:
        "<logs>/weights/{file}.log",
    benchmark:
        "<logs>/weights/{file}.tsv"
    wildcard_constraints:
        file="|".join(map(re.escape, WEIGHT_FILES)) or "none",
    conda:
        "../../envs/data.yaml"
    threads: 1
    resources:
        mem_mb=growing(1000),
        runtime=240,
    params:
        # its content alone: a new mirror or another word in the YAML does not fetch again
        checksum=lambda wildcards: WEIGHT_FILES[wildcards.file]["file"]["sha256"],
        yaml=lambda wildcards: WEIGHT_FILES[wildcards.file]["yaml"],
        drop=drop_folder("weights"),
    message:
        "Fetching the weights {wildcards.file}"
    script:
        "../scripts/fetch.py"


rule fetch_released:
    output:
        "<resources>/released/{study}/{dataset}/{method}/released.json",
    log:
        "<logs>/{study}/{dataset}/{method}/fetch_released.log",
    benchmark:
        "<logs>/{study}/{dataset}/{method}/fetch_released.tsv"
    wildcard_constraints:
        method=RELEASED,
    conda:
        "../../envs/data.yaml"
    threads: 1
    resources:
        mem_mb=growing(1000),
        runtime=480,
    params:
        released=lambda wildcards: settings.canonical(run_of(wildcards)["released"]),
        folds=lambda wildcards: settings.folds_of(run_of(wildcards)),
        drop=lambda wildcards: drop_folder(
            f"released/{wildcards.study}/{wildcards.dataset}/{wildcards.method}"
        ),
    message:
        "Fetching the released checkpoints of {wildcards.method} on {wildcards.dataset}"
    script:
        "../scripts/fetch_released.py"


rule verify:
    input:
        dataset_files,
    output:
        "<resources>/datasets/{dataset}/verified.json",
    log:
        "<logs>/datasets/{dataset}/verify.log",
    benchmark:
        "<logs>/datasets/{dataset}/verify.tsv"
    conda:
        "../../envs/data.yaml"
    threads: 1
    resources:
        mem_mb=growing(1000),
        runtime=60,
    params:
        files=known_of_files,
    message:
        "Verifying the checksums of {wildcards.dataset}"
    script:
        "../scripts/verify.py"


rule extract:
    input:
        archives=archive_files,
        verified="<resources>/datasets/{dataset}/verified.json",
    output:
        "<resources>/datasets/{dataset}/extracted.json",
    log:
        "<logs>/datasets/{dataset}/extract.log",
    benchmark:
        "<logs>/datasets/{dataset}/extract.tsv"
    conda:
        "../../envs/data.yaml"
    threads: 1
    resources:
        mem_mb=growing(2000),
        runtime=480,
    params:
        archives=lambda wildcards: archives_of(wildcards.dataset),
    message:
        "Unpacking the archives of {wildcards.dataset}"
    script:
        "../scripts/extract.py"


rule index:
    input:
        verified="<resources>/datasets/{dataset}/verified.json",
        extracted=extracted_of,
        parser=parser_files,
    output:
        "<resources>/datasets/{dataset}/images.csv",
    log:
        "<logs>/datasets/{dataset}/index.log",
    benchmark:
        "<logs>/datasets/{dataset}/index.tsv"
    conda:
        "../../envs/data.yaml"
    threads: 2
    resources:
        mem_mb=growing(4000),
        runtime=120,
    params:
        dataset=parser_settings,
        root=lambda wildcards: image_root(wildcards.dataset),
        listing=lambda wildcards: listing_of(wildcards.dataset),
    message:
        "Indexing the images of {wildcards.dataset}"
    script:
        "../scripts/index.py"


rule pack:
    input:
        "<resources>/datasets/{dataset}/images.csv",
    output:
        pixels="<resources>/datasets/{dataset}/packed/{resize}/pixels.bin",
        shapes="<resources>/datasets/{dataset}/packed/{resize}/shapes.npy",
        hashes="<resources>/datasets/{dataset}/packed/{resize}/hashes.npy",
        pack="<resources>/datasets/{dataset}/packed/{resize}/pack.json",
    log:
        "<logs>/datasets/{dataset}/pack/{resize}.log",
    benchmark:
        "<logs>/datasets/{dataset}/pack/{resize}.tsv"
    conda:
        "../../envs/data.yaml"
    threads: 8
    resources:
        mem_mb=growing(4000),
        runtime=720,
    params:
        root=lambda wildcards: image_root(wildcards.dataset),
        reading=image_reading,
    message:
        "Packing {wildcards.dataset}, {wildcards.resize} size"
    script:
        "../scripts/pack.py"


rule split:
    input:
        "<resources>/datasets/{dataset}/images.csv",
    output:
        "<results>/{study}/{dataset}/split.json",
    log:
        "<logs>/{study}/{dataset}/split.log",
    benchmark:
        "<logs>/{study}/{dataset}/split.tsv"
    conda:
        "../../envs/data.yaml"
    threads: 1
    resources:
        mem_mb=growing(1000),
        runtime=10,
    params:
        scheme=lambda wildcards: settings.canonical(
            settings.split_of(study_of(wildcards.study), wildcards.dataset)
        ),
        classes=lambda wildcards: study_of(wildcards.study)["datasets"][wildcards.dataset].get("classes"),
    message:
        "Splitting {wildcards.dataset} for {wildcards.study}"
    script:
        "../scripts/split.py"

# fetch → verify → extract → index → pack: turn a dataset's sources into a memory map, once for all studies


rule data:
    input:
        lambda wildcards: [
            f"<resources>/datasets/{dataset}/images.csv" for dataset in config.get("datasets") or DATASETS
        ],


rule fetch:
    output:
        "<resources>/datasets/{dataset}/downloads/{file}",
    log:
        "<logs>/datasets/{dataset}/fetch/{file}.log",
    benchmark:
        "<logs>/datasets/{dataset}/fetch/{file}.tsv"
    localrule: True
    conda:
        "../../envs/data.yaml"
    threads: 1
    resources:
        mem_mb=growing(1000),
        runtime=1440,
    params:
        checksum=for_users(lambda wildcards: dataset_of(wildcards.dataset).checksum(wildcards.file)),
        yaml=lambda wildcards: str(DATASETS[wildcards.dataset]),
        drop=lambda wildcards: description.drop_folder(RESOURCES, wildcards.dataset),
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
    localrule: True
    conda:
        "../../envs/data.yaml"
    threads: 1
    resources:
        mem_mb=growing(1000),
        runtime=240,
    params:
        # only the content matters: a new mirror or another edit of the YAML triggers no download
        checksum=lambda wildcards: WEIGHT_FILES[wildcards.file].entry["sha256"],
        yaml=lambda wildcards: str(WEIGHT_FILES[wildcards.file].path),
        drop=description.drop_folder(RESOURCES, "weights"),
    message:
        "Fetching weights {wildcards.file}"
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
        method=f"{ROW}{RELEASED}",
    localrule: True
    conda:
        "../../envs/data.yaml"
    threads: 1
    resources:
        mem_mb=growing(1000),
        runtime=480,
    params:
        released=lambda wildcards: run_of(wildcards).released,
        folds=lambda wildcards: run_of(wildcards).members,
        drop=lambda wildcards: description.drop_folder(
            RESOURCES, f"released/{wildcards.study}/{wildcards.dataset}/{wildcards.method}"
        ),
    message:
        "Fetching the released checkpoints of {wildcards.method} on {wildcards.dataset}"
    script:
        "../scripts/fetch_released.py"


rule fetch_lists:
    output:
        "<resources>/datasets/{dataset}/lists.json",
    log:
        "<logs>/datasets/{dataset}/fetch_lists.log",
    benchmark:
        "<logs>/datasets/{dataset}/fetch_lists.tsv"
    localrule: True
    conda:
        "../../envs/data.yaml"
    threads: 1
    resources:
        mem_mb=growing(1000),
        runtime=60,
    params:
        lists=lambda wildcards: dataset_of(wildcards.dataset).split_lists,
        # a list that the user drops later is fetched and changes the split
        dropped=lambda wildcards: description.dropped_texts(
            description.drop_folder(RESOURCES, wildcards.dataset)
        ),
        yaml=lambda wildcards: str(DATASETS[wildcards.dataset]),
        drop=lambda wildcards: description.drop_folder(RESOURCES, wildcards.dataset),
    message:
        "Fetching the published lists of {wildcards.dataset}"
    script:
        "../scripts/fetch_lists.py"


rule verify:
    input:
        lambda wildcards: dataset_of(wildcards.dataset).downloads(dataset_of(wildcards.dataset).files),
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
        files=lambda wildcards: dataset_of(wildcards.dataset).checksums,
    message:
        "Verifying the checksums of {wildcards.dataset}"
    script:
        "../scripts/verify.py"


rule extract:
    input:
        archives=lambda wildcards: dataset_of(wildcards.dataset).downloads(
            dataset_of(wildcards.dataset).archives
        ),
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
        archives=lambda wildcards: dataset_of(wildcards.dataset).archives,
    message:
        "Unpacking the archives of {wildcards.dataset}"
    script:
        "../scripts/extract.py"


rule index:
    input:
        verified="<resources>/datasets/{dataset}/verified.json",
        # a dataset without archives has nothing to extract
        extracted=lambda wildcards: (
            f"<resources>/datasets/{wildcards.dataset}/extracted.json"
            if dataset_of(wildcards.dataset).archives
            else []
        ),
        tables=lambda wildcards: dataset_of(wildcards.dataset).downloads(dataset_of(wildcards.dataset).tables),
        parser=for_users(lambda wildcards: dataset_of(wildcards.dataset).parser_files),
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
        dataset=lambda wildcards: dataset_of(wildcards.dataset).parser,
        root=lambda wildcards: dataset_of(wildcards.dataset).root,
        listing=for_users(lambda wildcards: dataset_of(wildcards.dataset).listing),
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
        root=lambda wildcards: dataset_of(wildcards.dataset).root,
        reading=lambda wildcards: dataset_of(wildcards.dataset).image_reading,
    message:
        "Packing the images of {wildcards.dataset} ({wildcards.resize})"
    script:
        "../scripts/pack.py"


rule split:
    input:
        "<resources>/datasets/{dataset}/images.csv",
        lists=lambda wildcards: (
            f"<resources>/datasets/{wildcards.dataset}/lists.json"
            if study_of(wildcards.study).split(wildcards.dataset)["scheme"] == LISTS
            and dataset_of(wildcards.dataset).split_lists
            else []
        ),
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
        scheme=lambda wildcards: study_of(wildcards.study).split(wildcards.dataset),
        classes=lambda wildcards: study_of(wildcards.study).classes[wildcards.dataset],
        reductions=lambda wildcards: Reductions.of(
            study_of(wildcards.study), wildcards.dataset, config.get("methods")
        ),
    message:
        "Splitting {wildcards.dataset} for study {wildcards.study}"
    script:
        "../scripts/split.py"

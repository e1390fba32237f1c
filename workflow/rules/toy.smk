# toy (one job per loss) → toy_figure → toy_page: toy experiments on points in a plane (config/toys)


rule toy:
    output:
        "<results>/{toy}/{experiment}.npz",
    log:
        "<logs>/{toy}/{experiment}.log",
    benchmark:
        "<logs>/{toy}/{experiment}.tsv"
    wildcard_constraints:
        toy="|".join(TOYS) or "none",
        experiment=ROW,
    conda:
        "../../envs/train.yaml"
    threads: 1
    resources:
        mem_mb=growing(2000),
        runtime=growing(30),
    params:
        settings=for_users(lambda wildcards: toy_of(wildcards.toy).settings(wildcards.experiment)),
    message:
        "Training the toy network of {wildcards.toy} with loss {wildcards.experiment}"
    script:
        "../scripts/toy.py"


rule toy_figure:
    input:
        lambda wildcards: toy_of(wildcards.toy).runs,
    output:
        png=report(
            "<results>/{toy}/figures/{picture}.png",
            caption="../report/toy.rst",
            category="{toy}",
            labels={"what": "{picture}"},
        ),
        svg="<results>/{toy}/figures/{picture}.svg",
    log:
        "<logs>/{toy}/figures/{picture}.log",
    benchmark:
        "<logs>/{toy}/figures/{picture}.tsv"
    wildcard_constraints:
        toy="|".join(TOYS) or "none",
        picture="|".join(PICTURES),
    localrule: True
    conda:
        "../../envs/report.yaml"
    threads: 1
    resources:
        mem_mb=1000,
        runtime=10,
    params:
        labels=lambda wildcards: toy_of(wildcards.toy).labels,
    message:
        "Drawing picture '{wildcards.picture}' of {wildcards.toy}"
    script:
        "../scripts/toy_figure.py"


rule toy_page:
    input:
        runs=lambda wildcards: toy_of(wildcards.toy).runs,
        figures=expand("<results>/{{toy}}/figures/{picture}.png", picture=PICTURES),
        vectors=expand("<results>/{{toy}}/figures/{picture}.svg", picture=PICTURES),
    output:
        report(
            "<results>/{toy}/index.html",
            caption="../report/toy.rst",
            category="{toy}",
            labels={"what": "page"},
        ),
    log:
        "<logs>/{toy}/page.log",
    benchmark:
        "<logs>/{toy}/page.tsv"
    wildcard_constraints:
        toy="|".join(TOYS) or "none",
    localrule: True
    conda:
        "../../envs/report.yaml"
    threads: 1
    resources:
        mem_mb=1000,
        runtime=10,
    params:
        toy=lambda wildcards: toy_of(wildcards.toy).content,
    message:
        "Building the page of {wildcards.toy}"
    script:
        "../scripts/toy_page.py"


for name in TOYS:

    rule:
        name:
            name
        input:
            f"<results>/{name}/index.html",

# toy (one job a loss) → toy_figure → toy_page: points in a plane instead of images (config/toys)


localrules:
    toy_figure,
    toy_page,


rule toy:
    output:
        "<results>/{toy}/{experiment}.npz",
    log:
        "<logs>/{toy}/{experiment}.log",
    benchmark:
        "<logs>/{toy}/{experiment}.tsv"
    wildcard_constraints:
        toy=TOY_NAMES,
        experiment=METHOD,
    conda:
        "../../envs/train.yaml"
    threads: 1
    resources:
        mem_mb=growing(2000),
        runtime=growing(30),
    params:
        settings=toy_settings,
    message:
        "Training the toy network of {wildcards.toy} by the loss {wildcards.experiment}"
    script:
        "../scripts/toy.py"


rule toy_figure:
    input:
        toy_runs,
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
        toy=TOY_NAMES,
        picture="|".join(TOY_PICTURES),
    conda:
        "../../envs/report.yaml"
    threads: 1
    resources:
        mem_mb=1000,
        runtime=10,
    params:
        labels=toy_labels,
    message:
        "Picture '{wildcards.picture}' of {wildcards.toy}"
    script:
        "../scripts/toy_figure.py"


rule toy_page:
    input:
        runs=toy_runs,
        figures=expand("<results>/{{toy}}/figures/{picture}.png", picture=TOY_PICTURES),
        vectors=expand("<results>/{{toy}}/figures/{picture}.svg", picture=TOY_PICTURES),
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
        toy=TOY_NAMES,
    conda:
        "../../envs/report.yaml"
    threads: 1
    resources:
        mem_mb=1000,
        runtime=10,
    params:
        toy=lambda wildcards: toy_of(wildcards.toy),
    message:
        "Page of {wildcards.toy}"
    script:
        "../scripts/toy_page.py"


for name in TOY_FILES:

    rule:
        name:
            name
        input:
            f"<results>/{name}/index.html",

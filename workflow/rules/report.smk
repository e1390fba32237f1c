# Tables, figures and pages, made on the machine that runs Snakemake.


rule table:
    input:
        unpack(lambda wildcards: needed(wildcards.study, [wildcards.dataset], TABLE_NEEDS)),
    output:
        md=report(
            "<results>/{study}/{dataset}/table.md",
            caption="../report/table.rst",
            category="{study}",
            subcategory="{dataset}",
            labels={"what": "table"},
        ),
        csv="<results>/{study}/{dataset}/table.csv",
        tex="<results>/{study}/{dataset}/table.tex",
        json="<results>/{study}/{dataset}/table.json",
        comparison="<results>/{study}/{dataset}/comparison.csv",
    log:
        "<logs>/{study}/{dataset}/table.log",
    benchmark:
        "<logs>/{study}/{dataset}/table.tsv"
    wildcard_constraints:
        study="|".join(map(re.escape, REPORTS)),
    localrule: True
    conda:
        "../../envs/report.yaml"
    threads: 1
    resources:
        mem_mb=1000,
        runtime=10,
    params:
        facts=lambda wildcards: facts_of(wildcards.study, wildcards.dataset),
        existing=lambda wildcards: existing(wildcards.study, [wildcards.dataset], TABLE_NEEDS),
    message:
        "Rendering the table of {wildcards.study} on {wildcards.dataset}"
    script:
        "../scripts/table.py"


rule figure:
    input:
        unpack(
            lambda wildcards: needed(wildcards.study, [wildcards.dataset], FIGURES[wildcards.figure].needs)
        ),
        code=lambda wildcards: source_of(FIGURES[wildcards.figure]),
    output:
        png=report(
            "<results>/{study}/figures/{dataset}_{figure}.png",
            caption="../report/figure.rst",
            category="{study}",
            subcategory="{dataset}",
            labels={"what": "{figure}"},
        ),
        svg="<results>/{study}/figures/{dataset}_{figure}.svg",
    log:
        "<logs>/{study}/figures/{dataset}_{figure}.log",
    benchmark:
        "<logs>/{study}/figures/{dataset}_{figure}.tsv"
    wildcard_constraints:
        study="|".join(map(re.escape, REPORTS)),
    localrule: True
    conda:
        "../../envs/report.yaml"
    threads: 1
    resources:
        mem_mb=2000,
        runtime=30,
    params:
        facts=lambda wildcards: facts_of(wildcards.study, wildcards.dataset),
        existing=lambda wildcards: existing(
            wildcards.study, [wildcards.dataset], FIGURES[wildcards.figure].needs
        ),
        caption=lambda wildcards: FIGURES[wildcards.figure].describe(
            facts_of(wildcards.study, wildcards.dataset)
        ),
    message:
        "Drawing figure '{wildcards.figure}' of {wildcards.study} on {wildcards.dataset}"
    script:
        "../scripts/figure.py"


rule study_figure:
    input:
        tables=lambda wildcards: [
            f"<results>/{wildcards.study}/{dataset}/table.json"
            for dataset in shown_study(wildcards.study).datasets
        ],
        code=lambda wildcards: source_of(FIGURES[wildcards.figure]),
    output:
        png=report(
            "<results>/{study}/figures/{figure}.png",
            caption="../report/figure.rst",
            category="{study}",
            labels={"what": "{figure}"},
        ),
        svg="<results>/{study}/figures/{figure}.svg",
    log:
        "<logs>/{study}/figures/{figure}.log",
    benchmark:
        "<logs>/{study}/figures/{figure}.tsv"
    wildcard_constraints:
        study="|".join(map(re.escape, REPORTS)),
        figure="|".join(STUDY_FIGURES),
    localrule: True
    conda:
        "../../envs/report.yaml"
    threads: 1
    resources:
        mem_mb=1000,
        runtime=10,
    params:
        facts=lambda wildcards: all_facts_of(wildcards.study),
        caption=lambda wildcards: FIGURES[wildcards.figure].describe(all_facts_of(wildcards.study)),
    message:
        "Drawing figure '{wildcards.figure}' of {wildcards.study}"
    script:
        "../scripts/study_figure.py"


rule searches:
    input:
        unpack(lambda wildcards: needed(wildcards.study, shown_study(wildcards.study).datasets, SEARCH_NEEDS)),
    output:
        json="<results>/{study}/searches.json",
        searches_md=report(
            "<results>/{study}/searches.md",
            caption="../report/searches.rst",
            category="{study}",
            labels={"what": "selected values of searches"},
        ),
        searches_csv="<results>/{study}/searches.csv",
        searches_tex="<results>/{study}/searches.tex",
        effort_md=report(
            "<results>/{study}/effort.md",
            caption="../report/searches.rst",
            category="{study}",
            labels={"what": "trials needed by searches"},
        ),
        effort_csv="<results>/{study}/effort.csv",
        effort_tex="<results>/{study}/effort.tex",
    log:
        "<logs>/{study}/searches.log",
    benchmark:
        "<logs>/{study}/searches.tsv"
    wildcard_constraints:
        study="|".join(map(re.escape, REPORTS)),
    localrule: True
    conda:
        "../../envs/report.yaml"
    threads: 1
    resources:
        mem_mb=1000,
        runtime=10,
    params:
        facts=lambda wildcards: [
            facts_of(wildcards.study, dataset) for dataset in shown_study(wildcards.study).datasets
        ],
        existing=lambda wildcards: existing(
            wildcards.study, shown_study(wildcards.study).datasets, SEARCH_NEEDS
        ),
    message:
        "Rendering the search tables of {wildcards.study}"
    script:
        "../scripts/searches.py"


rule page:
    input:
        unpack(lambda wildcards: needed(wildcards.study, shown_study(wildcards.study).datasets, PAGE_NEEDS)),
        tables=lambda wildcards: [
            f"<results>/{wildcards.study}/{dataset}/table.json"
            for dataset in shown_study(wildcards.study).datasets
        ],
        # the page does not read these; as inputs, they are made again if they were deleted
        formats=lambda wildcards: expand(
            "<results>/{study}/{dataset}/{file}",
            study=wildcards.study,
            dataset=shown_study(wildcards.study).datasets,
            file=("table.md", "table.csv", "table.tex", "comparison.csv"),
        ),
        searches=lambda wildcards: search_tables(wildcards.study),
        figures=lambda wildcards: figures_of(wildcards.study, FIGURES, "png"),
        vectors=lambda wildcards: figures_of(wildcards.study, FIGURES, "svg"),
    output:
        html=report(
            "<results>/{study}/index.html",
            caption="../report/page.rst",
            category="{study}",
            labels={"what": "page"},
        ),
        bibtex="<results>/{study}/references.bib",
        verdicts="<results>/{study}/verdicts.csv",
    log:
        "<logs>/{study}/page.log",
    benchmark:
        "<logs>/{study}/page.tsv"
    wildcard_constraints:
        study="|".join(map(re.escape, REPORTS)),
    localrule: True
    conda:
        "../../envs/report.yaml"
    threads: 1
    resources:
        mem_mb=1000,
        runtime=10,
    params:
        facts=lambda wildcards: page_facts(wildcards.study, FIGURES),
        datasets=lambda wildcards: [
            facts_of(wildcards.study, dataset) for dataset in shown_study(wildcards.study).datasets
        ],
        existing=lambda wildcards: existing(
            wildcards.study, shown_study(wildcards.study).datasets, PAGE_NEEDS
        ),
        runs=lambda wildcards: run_folder(wildcards.study),
        folders=lambda wildcards: [RESULTS, LOGS],
    message:
        "Building the page of {wildcards.study}"
    script:
        "../scripts/page.py"

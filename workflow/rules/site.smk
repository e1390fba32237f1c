# site: one page with the results of all studies on disk, and one page per study. These rules train nothing.


rule galleries:
    output:
        "<results>/{study}/{dataset}/galleries.json",
    log:
        "<logs>/{study}/{dataset}/galleries.log",
    benchmark:
        "<logs>/{study}/{dataset}/galleries.tsv"
    wildcard_constraints:
        study="|".join(re.escape(name) for name in SITE_REPORTS),
    localrule: True
    conda:
        "../../envs/report.yaml"
    threads: 1
    resources:
        mem_mb=4000,
        runtime=60,
    params:
        facts=lambda wildcards: facts_of(wildcards.study, wildcards.dataset),
        existing=lambda wildcards: existing(wildcards.study, [wildcards.dataset], GALLERY_NEEDS),
    message:
        "Collecting the galleries of {wildcards.study} on {wildcards.dataset}"
    script:
        "../scripts/galleries.py"


rule site:
    input:
        galleries=lambda wildcards: site_galleries(),
    output:
        html="<results>/index.html",
        pages=expand("<results>/site/{study}.html", study=STUDIES),
    log:
        "<logs>/site.log",
    benchmark:
        "<logs>/site.tsv"
    localrule: True
    conda:
        "../../envs/report.yaml"
    threads: 1
    resources:
        mem_mb=2000,
        runtime=30,
    params:
        studies=lambda wildcards: site_studies(),
        folders=lambda wildcards: [RESULTS, LOGS],
    message:
        "Writing the site: {output.html}"
    script:
        "../scripts/site.py"

# Recheck: studies, rules and targets. The computations are in workflow/scripts/recheck.
from snakemake.utils import min_version

min_version("9.27")


configfile: "config/config.yaml"


include: "workflow/rules/common.smk"
include: "workflow/rules/data.smk"
include: "workflow/rules/train.smk"
include: "workflow/rules/tune.smk"
include: "workflow/rules/evaluate.smk"
include: "workflow/rules/report.smk"
include: "workflow/rules/site.smk"
include: "workflow/rules/toy.smk"
include: "workflow/rules/try.smk"
include: "workflow/rules/cost.smk"
include: "workflow/rules/doctor.smk"


report: "workflow/report/workflow.rst"


rule all:
    # A workflow that imports this one keeps its own default target.
    default_target: DEFAULT
    input:
        partial(target_files, config["study"]),


for name in TARGETS:
    check_name(name)

    rule:
        name:
            name
        input:
            partial(target_files, name),


check_request()


if workflow.exec_mode.name == "DEFAULT" and not IMPORTED:
    retries.install((Job, GroupJob), since=time.time())
    reevaluation.install(JobScheduler)
    sys.excepthook = terminal.say_stopped
    terminal.install(
        logger,
        untimed={rule.name for rule in workflow.rules if not rule.output},
        live=not (workflow.output_settings.quiet or workflow.output_settings.dryrun),
    )


onsuccess:
    if workflow.exec_mode.name == "DEFAULT":
        for text in chosen_values():
            logger.info(text)


onerror:
    # Only in the main process: the Snakemake inside a cluster job would print it a second time.
    if workflow.exec_mode.name == "DEFAULT" and (summary := failures.of_logs(log)):
        logger.error(summary)

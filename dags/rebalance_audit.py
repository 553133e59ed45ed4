"""Airflow: evidence in, every stage followed by its check, publish, alert; days of evidence; reports; maintenance.

Nothing happens when this file is read.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from airflow.providers.standard.operators.bash import BashOperator
from airflow.sdk import DAG, Param, chain

from dags.assets import ADVICE, POOL, PUBLISHED, REPORT, say_which_warehouse
from spark_jobs.plan import PUBLISH, STAGES

DOCS = """
### Rebalance audit

Brings new evidence into a warehouse, runs every stage of the pipeline over what is new, checks what each stage wrote
(Great Expectations suites from `domain/tables`), publishes, and alerts.

**Where it runs.** Each task calls the `rebalance-audit` command in the command's own interpreter, so that Airflow may
live in another environment. The worker's environment says where things are:

| variable | meaning |
| --- | --- |
| `REBALANCE_AUDIT_COMMAND` | how to call it; default `rebalance-audit` on PATH |
| `REBALANCE_AUDIT_WAREHOUSE` | the warehouse, unless the run's parameter names one |
| `REBALANCE_AUDIT_BOOTSTRAP` | brokers to collect from, unless a parameter names a source; `none`: collectors land it |
| `REBALANCE_AUDIT_COMMAND_CONFIG` | client properties with the credentials; never a parameter, parameters are shown |
| `REBALANCE_AUDIT_CONFIG` | the settings file: limits, teams, `alerts`; `traces` and `annotations` after publish |
| `REBALANCE_AUDIT_ALERT_TO` | targets, blanks between them, before those of the settings; without any: skipped |
| `REBALANCE_AUDIT_ENGINE` | `local`, `spark` or `auto`, what runs the stages; default `auto` |
| `REBALANCE_AUDIT_POOL` | the pool of the tasks that write; default `rebalance_audit`. It must exist, with one slot |

**Older evidence.** Trigger it with `evidence` set to a folder of copied segments and logs. Importing twice changes
nothing. For many days there is `rebalance_audit_days`.

**When it fails.** A stage that breaks a fatal law stops the run; readers keep what was published before. The verdicts
are in `gold.check`, the failing rows in the task's log. Everything may be run again at any point: a stage knows what
it has done. Only one run is active at a time and all writing tasks share a pool, since a warehouse has one writer.

**After it.** Tables that were published and hold their checks are the asset `rebalance_audit_published`.
"""

CALL = """
set -euo pipefail
read -ra command <<< "${REBALANCE_AUDIT_COMMAND:-rebalance-audit}"
warehouse=${WAREHOUSE:-${REBALANCE_AUDIT_WAREHOUSE:-}}
if [ -z "$warehouse" ]; then
  echo "No warehouse: set the parameter 'warehouse', or REBALANCE_AUDIT_WAREHOUSE in the worker's environment." >&2
  exit 2
fi
"""

COLLECT = (
    CALL
    + """
options=(-q -w "$warehouse")
if [ -n "$LOGS" ]; then options+=(--logs "$LOGS"); fi
if [ -n "$CLUSTER_ID" ]; then options+=(--cluster-id "$CLUSTER_ID"); fi
if [ -n "$EVIDENCE" ]; then
  if [ -n "$LOG_TIME_ZONE" ]; then options+=(--log-time-zone "$LOG_TIME_ZONE"); fi
  exec "${command[@]}" import "${options[@]}" -- "$EVIDENCE"
fi
bootstrap=${BOOTSTRAP:-${REBALANCE_AUDIT_BOOTSTRAP:-}}
if [ -z "$bootstrap" ]; then
  echo "No source: set the parameter 'evidence' or 'bootstrap_server', or REBALANCE_AUDIT_BOOTSTRAP." >&2
  exit 2
fi
if [ "$bootstrap" = none ]; then echo "Collectors of their own land the evidence."; exit 0; fi
if [ -n "$METADATA" ]; then options+=(--metadata "$METADATA"); fi
if [ -n "${REBALANCE_AUDIT_COMMAND_CONFIG:-}" ]; then options+=(--command-config "$REBALANCE_AUDIT_COMMAND_CONFIG"); fi
exec "${command[@]}" collect "${options[@]}" --until-end -b "$bootstrap"
"""
)

# Publishing is checked before it is committed: a later check could not take back what people have read.
RUN_STAGE = CALL + 'exec "${command[@]}" run -w "$warehouse" --stage "$STAGE" --no-check\n'
CHECK_STAGE = CALL + 'exec "${command[@]}" run -w "$warehouse" --check "$STAGE"\n'

# GNU date makes a day of whatever was given, so nothing else becomes part of the file's name.
WRITE_REPORT = (
    CALL
    + """
folder=${REPORTS:-${REBALANCE_AUDIT_REPORTS:-}}
if [ -z "$folder" ]; then
  echo "No place for the report: set the parameter 'reports', or REBALANCE_AUDIT_REPORTS." >&2
  exit 2
fi
wanted=${DAY:-${RUN_AT:+$RUN_AT 1 day ago}}
day=$(date -u -d "${wanted:-yesterday}" +%F)
until=$(date -u -d "$day + 1 day" +%F)
mkdir -p "$folder"
file="$folder/rebalances-$day.html"
"${command[@]}" report -w "$warehouse" --from "$day" --to "$until" -o html > "$file.unfinished"
mv "$file.unfinished" "$file"
echo "$file"
"""
)

IMPORT_DAY = (
    CALL
    + """
folder=${FOLDER:-${REBALANCE_AUDIT_EVIDENCE:-}}
if [ -z "$folder" ]; then
  echo "No evidence: set the parameter 'folder', or REBALANCE_AUDIT_EVIDENCE." >&2
  exit 2
fi
if [ -z "${RUN_AT:-}" ]; then
  echo "Which day? Give the run a logical date, or make a backfill over the days." >&2
  exit 2
fi
day=$(date -u -d "$RUN_AT 1 day ago" +%F)
if [ ! -d "$folder/$day" ]; then echo "There is no $folder/$day."; exit 99; fi
options=(-q -w "$warehouse")
if [ -n "$CLUSTER_ID" ]; then options+=(--cluster-id "$CLUSTER_ID"); fi
exec "${command[@]}" import "${options[@]}" -- "$folder/$day"
"""
)
RUN_ALL = CALL + 'exec "${command[@]}" run -q -w "$warehouse"\n'

MAINTAIN = CALL + 'exec "${command[@]}" maintain -q -w "$warehouse" --keep "${KEEP:-7d}"\n'

WEIGH = CALL + 'exec "${command[@]}" whatif -q -w "$warehouse" --seconds "${SECONDS_PER_CORE:-300}"\n'

SKIPPED = 99
ALERT = (
    CALL
    + f"""
options=()
if [ -n "${{REBALANCE_AUDIT_ALERT_TO:-}}" ]; then
  read -ra targets <<< "$REBALANCE_AUDIT_ALERT_TO"
  for target in "${{targets[@]}}"; do options+=(--to "$target"); done
else
  # A list on one line is an empty one there: `alerts: []`.
  if [ -n "${{REBALANCE_AUDIT_CONFIG:-}}" ]; then settings=$("${{command[@]}}" config show); fi
  if ! grep -qx 'alerts:' <<< "${{settings:-}}"; then echo "No alert targets are set."; exit {SKIPPED}; fi
fi
exec "${{command[@]}}" alert -w "$warehouse" "${{options[@]}}"
"""
)


def _text(description: str) -> Param:
    return Param(None, type=["null", "string"], description=description)


def _tried(times: int, minutes_between: int, hours: float, *, writes: bool = True) -> dict[str, Any]:
    """Default arguments of a DAG: how often a task is tried again, how long it may take, and whether it writes."""
    return {
        "owner": "rebalance-audit",
        "retries": times,
        "retry_delay": timedelta(minutes=minutes_between),
        "execution_timeout": timedelta(hours=hours),
    } | ({"pool": POOL} if writes else {})


# The hourly run holds the lease for minutes.
WAITS_FOR_THE_RUN = _tried(6, 10, 2)
RUN_AT = {"RUN_AT": "{{ logical_date.strftime('%Y-%m-%d') if logical_date else '' }}"}

COMMON: dict[str, Any] = {
    "start_date": datetime(2026, 1, 1),
    "catchup": False,
    "max_active_runs": 1,
    "tags": ["kafka", "audit"],
}
WAREHOUSE = _text("Folder or object-store URL of the warehouse.")
PUBLISHES: dict[str, Any] = {"outlets": [PUBLISHED], "post_execute": say_which_warehouse}


with DAG(
    dag_id="rebalance_audit",
    description="Kafka rebalances: collect or import, every stage with its check, publish, alert",
    doc_md=DOCS,
    schedule="@hourly",
    **COMMON,
    # One writer per warehouse, and Spark takes the machine's cores as it is.
    max_active_tasks=1,
    default_args=_tried(2, 1, 2),
    params={
        "warehouse": WAREHOUSE,
        "evidence": _text("Import this evidence folder, instead of collecting."),
        "bootstrap_server": _text("Collect from these brokers (HOST:PORT, comma between them)."),
        "logs": _text("Folder with one folder of logs per node, as seen from the worker."),
        "metadata": _text("A KRaft node's metadata log folder, as seen from the worker."),
        "log_time_zone": _text("Zone of the imported logs; inferred if not given."),
        "cluster_id": _text("Name of the cluster, where the evidence does not say it."),
    },
) as dag:
    # Parameters travel as environment variables: pasted into a command, their text would be run.
    environment = {"WAREHOUSE": "{{ params.warehouse or '' }}"}
    source = {
        "EVIDENCE": "{{ params.evidence or '' }}",
        "BOOTSTRAP": "{{ params.bootstrap_server or '' }}",
        "LOGS": "{{ params.logs or '' }}",
        "METADATA": "{{ params.metadata or '' }}",
        "LOG_TIME_ZONE": "{{ params.log_time_zone or '' }}",
        "CLUSTER_ID": "{{ params.cluster_id or '' }}",
    }
    steps = [
        BashOperator(task_id="collect", bash_command=COLLECT, env=environment | source, append_env=True),
    ]
    for stage in STAGES:
        named = environment | {"STAGE": stage.name}
        steps += [
            BashOperator(
                task_id=stage.name, bash_command=RUN_STAGE, env=named, append_env=True, doc_md=f"Law: {stage.law}."
            ),
            BashOperator(
                task_id=f"check_{stage.name}", bash_command=CHECK_STAGE, env=named, append_env=True,
                **(PUBLISHES if stage is PUBLISH else {}),
            ),
        ]  # fmt: skip
    steps.append(
        BashOperator(task_id="alert", bash_command=ALERT, env=environment, append_env=True, skip_on_exit_code=SKIPPED)
    )
    chain(*steps)

with DAG(
    dag_id="rebalance_audit_report",
    description="What yesterday cost: one HTML file per day",
    doc_md=(
        "Writes `rebalances-DAY.html` into the folder `REBALANCE_AUDIT_REPORTS` of the worker's environment. It reads "
        "what is published. For an older day trigger it with `day`; writing one again replaces it."
    ),
    schedule="15 0 * * *",
    **COMMON,
    default_args=_tried(2, 5, 0.5, writes=False),
    params={
        "warehouse": WAREHOUSE,
        "reports": _text("Folder of the reports."),
        "day": _text("UTC, YYYY-MM-DD; the day before the run if not given."),
    },
):
    BashOperator(
        task_id="report",
        bash_command=WRITE_REPORT,
        env=RUN_AT
        | {
            "WAREHOUSE": "{{ params.warehouse or '' }}",
            "REPORTS": "{{ params.reports or '' }}",
            "DAY": "{{ params.day or '' }}",
        },
        append_env=True,
        outlets=[REPORT],
    )

with DAG(
    dag_id="rebalance_audit_days",
    description="Takes in yesterday's evidence folder, FOLDER/YYYY-MM-DD; a backfill takes in a window of days",
    doc_md=(
        "For clusters whose evidence is copied every night. Each run takes in one folder, that of the day before its "
        "logical date, and runs all stages; a day without a folder is skipped. A window is a backfill of Airflow: "
        "`airflow backfill create --dag-id rebalance_audit_days --from-date 2026-11-02 --to-date 2026-11-30 "
        '--dag-run-conf \'{"folder": "/evidence"}\' --reprocess-behavior failed`. Said again when it has ended, it '
        "does what failed; a day that was taken in twice changes nothing."
    ),
    schedule="45 0 * * *",
    **COMMON,
    default_args=WAITS_FOR_THE_RUN,
    params={
        "warehouse": WAREHOUSE,
        "folder": _text("Folder with one evidence folder per day, YYYY-MM-DD."),
        "cluster_id": _text("Name of the cluster, where the evidence does not say it."),
    },
):
    of_day = {
        "WAREHOUSE": "{{ params.warehouse or '' }}",
        "FOLDER": "{{ params.folder or '' }}",
        "CLUSTER_ID": "{{ params.cluster_id or '' }}",
    }
    chain(
        BashOperator(
            task_id="import_day", bash_command=IMPORT_DAY, env=of_day | RUN_AT, append_env=True, skip_on_exit_code=99
        ),
        BashOperator(task_id="run_day", bash_command=RUN_ALL, env=of_day, append_env=True, **PUBLISHES),
    )

with DAG(
    dag_id="rebalance_audit_maintenance",
    description="Joins the small files of a warehouse and deletes what is older than it keeps",
    doc_md=(
        "Deletes rows that are older than their layer keeps, counted back from the end of each cluster's evidence: "
        "bronze 7 days, silver 30, gold 400, or `retention` of the settings file (`REBALANCE_AUDIT_CONFIG`). While a "
        "run is writing it fails and is tried again: a warehouse has one writer."
    ),
    schedule="30 3 * * *",
    **COMMON,
    default_args=WAITS_FOR_THE_RUN,
    params={
        "warehouse": WAREHOUSE,
        "keep": Param("7d", type="string", description="Files that nothing newer than this needs are deleted."),
    },
):
    BashOperator(
        task_id="maintain",
        bash_command=MAINTAIN,
        env={"WAREHOUSE": "{{ params.warehouse or '' }}", "KEEP": "{{ params.keep }}"},
        append_env=True,
    )

with DAG(
    dag_id="rebalance_audit_whatif",
    description="Which changes of settings would have saved the fleet the most",
    doc_md="Replays the groups that stood still the longest, and replaces gold.whatif. It waits for its turn to write.",
    schedule="15 4 * * *",
    **COMMON,
    default_args=WAITS_FOR_THE_RUN,
    params={
        "warehouse": WAREHOUSE,
        "seconds": Param(300, type="integer", minimum=1, description="About so long, on each core."),
    },
):
    BashOperator(
        task_id="weigh",
        bash_command=WEIGH,
        env={"WAREHOUSE": "{{ params.warehouse or '' }}", "SECONDS_PER_CORE": "{{ params.seconds }}"},
        append_env=True,
        outlets=[ADVICE],
    )

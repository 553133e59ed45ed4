"""Examples of each verb, for the end of its `--help`. A test runs the parser over every line."""

from __future__ import annotations

from collections.abc import Mapping

EXAMPLES: Mapping[str, tuple[str, ...]] = {
    "explain": (
        "explain -b broker:9092 --logs /var/log/kafka",
        "explain orders-app -b broker:9092 --logs /logs --last 2h",
        "explain orders-app --evidence incident-4711/ -o json",
        "explain orders-app -w W --last 1d",
        "explain --reassignment orders-7 --data-dir /data --node b1",
    ),
    "whatif": (
        "whatif orders-app -b broker:9092 --logs /var/log/kafka",
        "whatif orders-app --evidence e/ --set session.timeout.ms=10s",
    ),
    "import": ("import incident-4711/ -w W", "import incident-4711/ -w W --cluster-id prod"),
    "collect": (
        "collect -b broker:9092 -w W --logs /var/log/kafka",
        "collect -b broker:9092 -w W --command-config client.conf",
    ),
    "stream": ("stream -b broker:9092 -w W", "stream -b broker:9092 -w s3://b/w --checkpoint hdfs:///audit"),
    "run": ("run -w W", "run -w W --engine local", "run -w W --again"),
    "watch": ("watch -b broker:9092 -w W --to http://am:9093/api/v2/alerts",),
    "report": ("report -w W", "report -w W -g orders-app --from -24h -o json", "report -w W -o html > report.html"),
    "export": ("export incident -w W --from -24h", "export rebalance -w W -g orders-app -o csv > rebalances.csv"),
    "mark": ("mark -w W --at -2h --text 'v2.3 of orders' -g 'orders*'",),
    "ack": ("ack in:1cff5785a0b3c2d1 -w W --reason 'rolling back v2.3'",),
    "silence": ("silence 'orders*' -w W --until 2h --reason 'planned work'", "silence 'orders*' -w W --until now "
                "--reason 'done early'"),
    "maintain": ("maintain -w W", "maintain -w W --keep-bronze 2d --keep-gold 90d"),
    "erase": ("erase orders-app -w W --reason 'ticket 4711'", "erase --cluster old-prod -w W --reason 'it is gone'"),
    "check": ("check -w W --fail-on critical", "check -w W -g orders-app -o json", "check -w W --docs checks/",
              "check -w W --release import-20261121T140000-1a2b3c4d-00000"),
    "alert": ("alert -w W --to http://am:9093/api/v2/alerts --dry-run",
              "alert -w W --to http://am:9093/api/v2/alerts"),
    "trace": ("trace -w W --to http://collector:4318",),
    "annotate": ("annotate -w W --to http://grafana:3000 --token-file TOKEN",),
    "serve": ("serve -w W --port 9108", "serve -w W --marks /run/secrets/marks"),
    "ui": ("ui -w W", "ui -w W --port 8600"),
    "config check": ("config check --config rebalance-audit.yaml",),
    "config show": ("config show --config rebalance-audit.yaml",),
    "config schema": ("config schema > settings.schema.json",),
    "audit verify": ("audit verify -w W", "audit verify -w W --heads /mnt/heads --key audit.pem.pub"),
    "audit key": ("audit key audit.pem",),
    "demo": ("demo", "demo --live"),
    "doctor": ("doctor", "doctor -b broker:9092", "doctor -w W"),
}  # fmt: skip


def epilog(verb: str) -> str:
    """The examples of a verb, or of all verbs below it, for click, which leaves their lines as they are."""
    lines = [line for name, some in EXAMPLES.items() if name == verb or name.startswith(f"{verb} ") for line in some]
    return "\b\nExamples:\n" + "\n".join(f"  rebalance-audit {line}" for line in lines)


def first_steps() -> str:
    """For the end of the help of all: one line of each way to begin."""
    lines = (EXAMPLES["demo"][0], EXAMPLES["explain"][0], EXAMPLES["import"][0], EXAMPLES["run"][0], EXAMPLES["ui"][0])
    return "\b\nExamples:\n" + "\n".join(f"  rebalance-audit {line}" for line in lines)

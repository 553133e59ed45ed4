"""Settings of brokers, workers and logging as text. Pure: no file, no process, no port is touched here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape, quoteattr

Settings = Mapping[str, str | int]


def version_key(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


def render_properties(settings: Settings) -> str:
    """Java-style properties; backslashes doubled and newlines escaped, as Properties.load undoes that."""
    escapes = str.maketrans({"\\": "\\\\", "\n": "\\n"})
    return "".join(f"{name}={str(value).translate(escapes)}\n" for name, value in settings.items())


@dataclass(frozen=True, kw_only=True, slots=True)
class BrokerPlace:
    """The ports and folders of one broker or controller. A port of None: it does not have that listener."""

    node_id: int
    broker_port: int | None
    controller_port: int | None
    log_dir: str


def broker_settings(version: str, place: BrokerPlace, *, replicas: int, extra: Settings) -> dict[str, str | int]:
    """Settings every lab broker has in common, KRaft or ZooKeeper; `extra` wins."""
    settings: dict[str, str | int] = {
        "log.dirs": place.log_dir,
        "offsets.topic.num.partitions": 4,
        "offsets.topic.replication.factor": replicas,
        "transaction.state.log.num.partitions": 2,
        "transaction.state.log.replication.factor": replicas,
        "transaction.state.log.min.isr": 1,
        "group.initial.rebalance.delay.ms": 0,
        "auto.create.topics.enable": "false",
        "num.network.threads": 2,
        "num.io.threads": 4,
        # Together with the index size below this keeps the log cleaner in a small heap.
        "log.cleaner.dedupe.buffer.size": 8 * 1024 * 1024,
        "log.index.size.max.bytes": 1024 * 1024,
    }
    if version_key(version) >= (4, 1):
        settings |= {
            "share.coordinator.state.topic.num.partitions": 2,
            "share.coordinator.state.topic.replication.factor": replicas,
            "share.coordinator.state.topic.min.isr": 1,
        }
    return settings | dict(extra)


@dataclass(frozen=True, kw_only=True, slots=True)
class FurtherListener:
    """A further listener of the brokers, beside the plain one that the lab itself uses."""

    name: str
    protocol: str
    """SSL, SASL_PLAINTEXT or SASL_SSL."""
    port: int


def kraft_settings(
    place: BrokerPlace, voters: Sequence[tuple[int, int]], further: Sequence[FurtherListener] = ()
) -> dict[str, str | int]:
    """Roles and listeners of a KRaft node. `voters`: (node id, controller port)."""
    roles = []
    listeners = []
    settings: dict[str, str | int] = {"node.id": place.node_id}
    if place.broker_port is not None:
        roles.append("broker")
        listeners.append(f"PLAINTEXT://localhost:{place.broker_port}")
        listeners += [f"{listener.name}://localhost:{listener.port}" for listener in further]
        # Only the broker's own listeners may be advertised, not the controller's.
        settings["advertised.listeners"] = ",".join(listeners)
    if place.controller_port is not None:
        roles.append("controller")
        listeners.append(f"CONTROLLER://localhost:{place.controller_port}")
    return settings | {
        "process.roles": ",".join(roles),
        "listeners": ",".join(listeners),
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": ",".join(
            ["CONTROLLER:PLAINTEXT", "PLAINTEXT:PLAINTEXT", *(f"{each.name}:{each.protocol}" for each in further)]
        ),
        "controller.quorum.voters": ",".join(f"{node_id}@localhost:{port}" for node_id, port in voters),
    }


def zookeeper_broker_settings(place: BrokerPlace, zookeeper_port: int) -> dict[str, str | int]:
    return {
        "broker.id": place.node_id,
        "listeners": f"PLAINTEXT://localhost:{place.broker_port}",
        "zookeeper.connect": f"localhost:{zookeeper_port}",
        # A killed broker is seen as gone after this time (18 s by default).
        "zookeeper.session.timeout.ms": 6000,
    }


def zookeeper_settings(data_dir: str, port: int) -> dict[str, str | int]:
    return {
        "dataDir": data_dir,
        "clientPort": port,
        "clientPortAddress": "localhost",
        "maxClientCnxns": 0,
        "admin.enableServer": "false",
    }


def worker_settings(
    version: str, *, bootstrap: str, group: str, port: int, replicas: int, extra: Settings
) -> dict[str, str | int]:
    """One distributed Connect worker; all workers of a `group` share its three topics."""
    settings: dict[str, str | int] = {
        "bootstrap.servers": bootstrap,
        "group.id": group,
        "listeners": f"HTTP://localhost:{port}",
        "rest.advertised.host.name": "localhost",
        "config.storage.topic": "connect-configs",
        "offset.storage.topic": "connect-offsets",
        "offset.storage.partitions": 2,
        "status.storage.topic": "connect-status",
        "status.storage.partitions": 2,
        "config.storage.replication.factor": replicas,
        "offset.storage.replication.factor": replicas,
        "status.storage.replication.factor": replicas,
        "key.converter": "org.apache.kafka.connect.storage.StringConverter",
        "value.converter": "org.apache.kafka.connect.storage.StringConverter",
        "offset.flush.interval.ms": 5000,
        # Ten seconds for everything, so that a lost worker is noticed soon.
        "session.timeout.ms": 10_000,
        "heartbeat.interval.ms": 3000,
    }
    if version_key(version) >= (3, 6):
        settings["plugin.discovery"] = "service_load"
    return settings | dict(extra)


def mirror_maker_settings(bootstrap: str) -> dict[str, str | int]:
    """MirrorMaker 2 that believes one cluster to be two: what it writes into the target it finds in the source."""
    settings: dict[str, str | int] = {
        "clusters": "src,dst",
        "src.bootstrap.servers": bootstrap,
        "dst.bootstrap.servers": bootstrap,
        "src->dst.enabled": "true",
        "dst->src.enabled": "false",
        "src->dst.topics": "orders",
        "refresh.topics.interval.seconds": 5,
        "refresh.groups.interval.seconds": 5,
        "emit.heartbeats.interval.seconds": 1,
        "tasks.max": 2,
        # Ten seconds for everything, like the lab's other workers.
        "session.timeout.ms": 10_000,
        "heartbeat.interval.ms": 3000,
    }
    for topic in ("checkpoints", "heartbeats", "offset-syncs", "offset.storage", "status.storage", "config.storage"):
        name = f"{topic}.topic.replication.factor" if "." not in topic else f"{topic}.replication.factor"
        settings |= {name: 1}
    return settings | {"replication.factor": 1}


# Logging, as Kafka ships it


@dataclass(frozen=True, kw_only=True, slots=True)
class LogFile:
    """One log file and the loggers that write to it, (name, level); no loggers: the root's file."""

    name: str
    loggers: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class LogLayout:
    """The files of one kind of process. `levels`: loggers that only get another level, not another file."""

    pattern: str
    files: tuple[LogFile, ...]
    levels: tuple[tuple[str, str], ...] = ()


BROKER_PATTERN = "[%d] %p %m (%c)%n"


def broker_log_layout(version: str) -> LogLayout:
    """config/log4j.properties up to 3.9, config/log4j2.yaml from 4.0, without the copy on the console."""
    controller = [("kafka.controller", "TRACE")] if version_key(version) < (4, 0) else []
    if version_key(version) >= (3, 4):
        controller.append(("org.apache.kafka.controller", "INFO"))
    # KAFKA-8470
    state_changes = "TRACE" if version_key(version) < (2, 6) else "INFO"
    cleaner = ["kafka.log.LogCleaner"]
    if version_key(version) >= (4, 0):
        package = "org.apache.kafka.storage.internals.log"
        cleaner = [f"{package}.LogCleaner", f"{package}.LogCleaner$CleanerThread", f"{package}.Cleaner"]
    return LogLayout(
        pattern=BROKER_PATTERN,
        files=(
            LogFile(name="server.log"),
            LogFile(name="controller.log", loggers=tuple(controller)),
            LogFile(name="state-change.log", loggers=(("state.change.logger", state_changes),)),
            LogFile(name="log-cleaner.log", loggers=tuple((name, "INFO") for name in cleaner)),
            LogFile(
                name="kafka-request.log",
                loggers=(("kafka.request.logger", "WARN"), ("kafka.network.RequestChannel$", "WARN")),
            ),
            LogFile(name="kafka-authorizer.log", loggers=(("kafka.authorizer.logger", "INFO"),)),
        ),
        levels=(("kafka", "INFO"), ("org.apache.kafka", "INFO")),
    )


def connect_log_layout(version: str) -> LogLayout:
    """config/connect-log4j.properties or connect-log4j2.yaml: the connector's context came with 3.0."""
    context = "%X{connector.context}" if version_key(version) >= (3, 0) else ""
    quiet = (("org.apache.zookeeper", "ERROR"), ("org.reflections", "ERROR")) if version_key(version) < (4, 0) else ()
    return LogLayout(
        pattern=f"[%d] %p {context}%m (%c:%L)%n",
        files=(LogFile(name="connect.log"),),
        levels=quiet,
    )


def single_log_layout(name: str) -> LogLayout:
    """ZooKeeper and the clients: one file."""
    return LogLayout(pattern=BROKER_PATTERN, files=(LogFile(name=name),))


def log4j_properties(layout: LogLayout, folder: str) -> str:
    """The logging configuration for log4j 1 and reload4j (up to 3.9)."""
    lines = []
    for file in layout.files:
        appender = _appender_name(file)
        prefix = f"log4j.appender.{appender}"
        lines += [
            f"{prefix}=org.apache.log4j.DailyRollingFileAppender",
            f"{prefix}.DatePattern='.'yyyy-MM-dd-HH",
            f"{prefix}.File={folder}/{file.name}",
            f"{prefix}.layout=org.apache.log4j.PatternLayout",
            f"{prefix}.layout.ConversionPattern={layout.pattern}",
        ]
        if not file.loggers:
            lines.append(f"log4j.rootLogger=INFO, {appender}")
        for logger, level in file.loggers:
            lines += [f"log4j.logger.{logger}={level}, {appender}", f"log4j.additivity.{logger}=false"]
    lines += [f"log4j.logger.{logger}={level}" for logger, level in layout.levels]
    return "\n".join(lines) + "\n"


def log4j2_xml(layout: LogLayout, folder: str) -> str:
    """The logging configuration for log4j 2 (from 4.0). XML, because log4j's YAML would need another jar."""
    appenders = []
    loggers = []
    for file in layout.files:
        name = quoteattr(_appender_name(file))
        path = f"{folder}/{file.name}"
        rolled = f"{path}.%d{{yyyy-MM-dd-HH}}"
        if file.name == "connect.log":
            rolled = f"{folder}/connect-%d{{yyyy-MM-dd-HH}}.log"
        appenders.append(
            f"    <RollingFile name={name} fileName={quoteattr(path)} filePattern={quoteattr(rolled)}>"
            f"<PatternLayout><Pattern>{escape(layout.pattern)}</Pattern></PatternLayout>"
            f'<TimeBasedTriggeringPolicy modulate="true" interval="1"/></RollingFile>'
        )
        reference = f"<AppenderRef ref={name}/>"
        if not file.loggers:
            loggers.append(f'    <Root level="INFO">{reference}</Root>')
        for logger, level in file.loggers:
            loggers.append(
                f'    <Logger name={quoteattr(logger)} level="{level}" additivity="false">{reference}</Logger>'
            )
    loggers += [f'    <Logger name={quoteattr(logger)} level="{level}"/>' for logger, level in layout.levels]
    parts = ['<Configuration status="WARN">', "  <Appenders>", *appenders, "  </Appenders>"]
    parts += ["  <Loggers>", *loggers, "  </Loggers>", "</Configuration>"]
    return "\n".join(parts) + "\n"


def logging_config(version: str, layout: LogLayout, folder: str) -> tuple[str, str]:
    """(suffix of the file, its text) in the dialect of that Kafka version."""
    if version_key(version) >= (4, 0):
        return ".xml", log4j2_xml(layout, folder)
    return ".properties", log4j_properties(layout, folder)


def logging_flag(version: str, path: str) -> str:
    """log4j 2 takes a path, log4j 1 wants an URL."""
    if version_key(version) >= (4, 0):
        return f"-Dlog4j2.configurationFile={path}"
    return f"-Dlog4j.configuration=file:{path}"


def _appender_name(file: LogFile) -> str:
    return file.name.removesuffix(".log").replace("-", "") + "Appender"

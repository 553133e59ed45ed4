"""Records about brokers and controllers: who is there, who is fenced, who is shutting down."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from rebalance_audit.domain.wire import Reader, UnknownTags


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerEndpoint:
    name: str
    host: str
    port: int
    security_protocol: int
    unknown_tags: UnknownTags = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Feature:
    name: str
    min_supported_version: int
    max_supported_version: int
    unknown_tags: UnknownTags = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisterBrokerRecord:
    """A broker came, or came again. Source: RegisterBrokerRecord.json."""

    broker_id: int
    is_migrating_zk_broker: bool = False
    """Since version 2 (Kafka 3.4)."""
    incarnation_id: str
    broker_epoch: int
    """The offset of this record."""
    end_points: tuple[BrokerEndpoint, ...]
    features: tuple[Feature, ...]
    rack: str | None
    fenced: bool
    in_controlled_shutdown: bool = False
    """Since version 1 (Kafka 3.3)."""
    log_dirs: tuple[str, ...] = ()
    """Tag 0, since version 3 (KIP-858, Kafka 3.7)."""
    cordoned_log_dirs: tuple[str, ...] | None = None
    """Tag 1, since version 4 (Kafka 4.3)."""
    unknown_tags: UnknownTags = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class UnregisterBrokerRecord:
    broker_id: int
    broker_epoch: int
    unknown_tags: UnknownTags = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class FenceBrokerRecord:
    """A broker was fenced. Up to metadata.version 3.3-IV1; BrokerRegistrationChangeRecord later. Source:
    FenceBrokerRecord.json."""

    id: int
    epoch: int
    unknown_tags: UnknownTags = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class UnfenceBrokerRecord:
    id: int
    epoch: int
    unknown_tags: UnknownTags = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerRegistrationChangeRecord:
    """A broker was fenced or unfenced, began its shutdown, or has other log directories. Source:
    BrokerRegistrationChangeRecord.json (KIP-841)."""

    broker_id: int
    broker_epoch: int
    fenced: int = 0
    """1 fences, -1 unfences, 0 leaves it."""
    in_controlled_shutdown: int = 0
    """1: enters it; since version 1."""
    log_dirs: tuple[str, ...] = ()
    """Since version 2 (Kafka 3.7)."""
    cordoned_log_dirs: tuple[str, ...] | None = None
    """Since version 3 (Kafka 4.3)."""
    unknown_tags: UnknownTags = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisterControllerRecord:
    """A controller came, with the features it supports. Source: RegisterControllerRecord.json (KIP-919, Kafka 3.7)."""

    controller_id: int
    incarnation_id: str
    zk_migration_ready: bool
    end_points: tuple[BrokerEndpoint, ...]
    features: tuple[Feature, ...]
    unknown_tags: UnknownTags = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class UnregisterControllerRecord:
    """A controller is gone. Source: UnregisterControllerRecord.json (Kafka 4.4)."""

    controller_id: int
    unknown_tags: UnknownTags = ()


def read_register_broker(reader: Reader, version: int) -> RegisterBrokerRecord:
    broker_id = reader.int32("brokerId")
    migrating = bool(reader.int8("isMigratingZkBroker")) if version >= 2 else False
    incarnation_id = reader.uuid("incarnationId")
    broker_epoch = reader.int64("brokerEpoch")
    end_points = reader.array("endPoints", _read_endpoint)
    features = reader.array("features", _read_feature)
    rack = reader.nullable_string("rack")
    fenced = bool(reader.int8("fenced"))
    shutdown = bool(reader.int8("inControlledShutdown")) if version >= 1 else False
    tagged = _LogDirs(reader, version, since=(3, 4), first_tag=0)
    return RegisterBrokerRecord(
        broker_id=broker_id,
        is_migrating_zk_broker=migrating,
        incarnation_id=incarnation_id,
        broker_epoch=broker_epoch,
        end_points=end_points,
        features=features,
        rack=rack,
        fenced=fenced,
        in_controlled_shutdown=shutdown,
        log_dirs=tagged.log_dirs,
        cordoned_log_dirs=tagged.cordoned,
        unknown_tags=tagged.unknown,
    )


def read_unregister_broker(reader: Reader, version: int) -> UnregisterBrokerRecord:
    broker_id, epoch = reader.int32("brokerId"), reader.int64("brokerEpoch")
    return UnregisterBrokerRecord(broker_id=broker_id, broker_epoch=epoch, unknown_tags=reader.tags({}))


def read_fence_broker(reader: Reader, version: int) -> FenceBrokerRecord:
    broker_id, epoch = reader.int32("id"), reader.int64("epoch")
    return FenceBrokerRecord(id=broker_id, epoch=epoch, unknown_tags=reader.tags({}))


def read_unfence_broker(reader: Reader, version: int) -> UnfenceBrokerRecord:
    broker_id, epoch = reader.int32("id"), reader.int64("epoch")
    return UnfenceBrokerRecord(id=broker_id, epoch=epoch, unknown_tags=reader.tags({}))


def read_broker_registration_change(reader: Reader, version: int) -> BrokerRegistrationChangeRecord:
    broker_id, epoch = reader.int32("brokerId"), reader.int64("brokerEpoch")
    tagged = _LogDirs(reader, version, since=(2, 3), first_tag=2)
    return BrokerRegistrationChangeRecord(
        broker_id=broker_id,
        broker_epoch=epoch,
        fenced=tagged.fenced,
        in_controlled_shutdown=tagged.shutdown,
        log_dirs=tagged.log_dirs,
        cordoned_log_dirs=tagged.cordoned,
        unknown_tags=tagged.unknown,
    )


def read_register_controller(reader: Reader, version: int) -> RegisterControllerRecord:
    return RegisterControllerRecord(
        controller_id=reader.int32("controllerId"),
        incarnation_id=reader.uuid("incarnationId"),
        zk_migration_ready=bool(reader.int8("zkMigrationReady")),
        end_points=reader.array("endPoints", _read_endpoint),
        features=reader.array("features", _read_feature),
        unknown_tags=reader.tags({}),
    )


def read_unregister_controller(reader: Reader, version: int) -> UnregisterControllerRecord:
    return UnregisterControllerRecord(controller_id=reader.int32("controllerId"), unknown_tags=reader.tags({}))


class _LogDirs:
    """The tagged end that registrations and their changes share, at different numbers."""

    def __init__(self, reader: Reader, version: int, *, since: tuple[int, int], first_tag: int) -> None:
        self.fenced = self.shutdown = 0
        self.log_dirs: tuple[str, ...] = ()
        self.cordoned: tuple[str, ...] | None = None
        fields = {first_tag: (since[0], self._log_dirs), first_tag + 1: (since[1], self._cordoned)}
        if first_tag == 2:
            fields |= {0: (0, self._fenced), 1: (1, self._shutdown)}
        self.unknown = reader.tags(
            {
                tag: read if version >= first else partial(Reader.refuse_tag, tag=tag, version=version)
                for tag, (first, read) in fields.items()
            }
        )

    def _fenced(self, reader: Reader) -> None:
        self.fenced = reader.int8("fenced")

    def _shutdown(self, reader: Reader) -> None:
        self.shutdown = reader.int8("inControlledShutdown")

    def _log_dirs(self, reader: Reader) -> None:
        self.log_dirs = reader.array("logDirs", _read_uuid)

    def _cordoned(self, reader: Reader) -> None:
        self.cordoned = reader.nullable_array("cordonedLogDirs", _read_uuid)


def _read_uuid(reader: Reader) -> str:
    return reader.uuid("")


def _read_endpoint(reader: Reader) -> BrokerEndpoint:
    return BrokerEndpoint(
        name=reader.string("name"),
        host=reader.string("host"),
        port=reader.uint16("port"),
        security_protocol=reader.int16("securityProtocol"),
        unknown_tags=reader.tags({}),
    )


def _read_feature(reader: Reader) -> Feature:
    return Feature(
        name=reader.string("name"),
        min_supported_version=reader.int16("minSupportedVersion"),
        max_supported_version=reader.int16("maxSupportedVersion"),
        unknown_tags=reader.tags({}),
    )

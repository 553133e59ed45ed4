"""Kafka client settings as operators have them, as librdkafka wants them.

`--command-config` is the Java-style properties file of Kafka's own tools; `-X key=value` goes to librdkafka as it is.
Source: librdkafka CONFIGURATION.md; Kafka's AdminClientConfig, SslConfigs, SaslConfigs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from ingest.errors import Misconfigured

SECRET_NAME = re.compile(r"password|secret|jaas|token|\.key$|key\.pem|oauthbearer\.config|credentials", re.IGNORECASE)
"""Names of client properties whose values are secrets."""
_SAME_NAME = frozenset({
    "bootstrap.servers", "client.dns.lookup", "client.id", "client.rack", "connections.max.idle.ms",
    "metadata.max.age.ms", "reconnect.backoff.max.ms", "reconnect.backoff.ms", "retry.backoff.ms",
    "sasl.kerberos.kinit.cmd", "sasl.kerberos.service.name", "sasl.mechanism", "sasl.oauthbearer.token.endpoint.url",
    "sasl.password", "sasl.username", "security.protocol", "socket.connection.setup.timeout.ms", "ssl.ca.location",
    "ssl.certificate.location", "ssl.cipher.suites", "ssl.key.location", "ssl.key.password", "ssl.keystore.password",
})  # fmt: skip
_RENAMED = {
    "ssl.truststore.certificates": "ssl.ca.pem",
    "ssl.keystore.certificate.chain": "ssl.certificate.pem",
    "ssl.keystore.key": "ssl.key.pem",
    "request.timeout.ms": "socket.timeout.ms",
    "send.buffer.bytes": "socket.send.buffer.bytes",
    "receive.buffer.bytes": "socket.receive.buffer.bytes",
}
_IGNORED = re.compile(
    r"(key|value)\.(de)?serializer|group\.id|enable\.auto\.commit|auto\.offset\.reset|isolation\.level|acks|retries"
    r"|default\.api\.timeout\.ms|max\.poll\..*|fetch\..*|sasl\.login\..*|ssl\.protocol|ssl\.enabled\.protocols"
    r"|ssl\.truststore\.password|ssl\.(truststore|keystore)\.type"
)
"""Java's own, or ours to decide: taken without a word."""
_JAAS = re.compile(r"^\s*(?P<module>[\w.]+)\s+\w+\s*(?P<options>.*?);?\s*$", re.DOTALL)
_JAAS_OPTION = re.compile(r"""(\w+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|'([^']*)'|([^\s;]+))""")


def read_command_config(path: str | Path) -> dict[str, str]:
    """A Java-style properties file as librdkafka settings. Raises Misconfigured with every fault at once."""
    try:
        text = Path(path).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise Misconfigured(f"The command config {path} cannot be read ({error}); check --command-config.") from error
    return from_java(parse_properties(text), place=str(path))


def parse_properties(text: str) -> dict[str, str]:
    """Java's properties format: comments, `=` or `:` or blank between, lines continued by a backslash, escapes."""
    properties: dict[str, str] = {}
    logical = ""
    for line in [*text.splitlines(), ""]:
        line = line.lstrip() if logical else line.strip(" \t\f")
        if not logical and line[:1] in ("", "#", "!"):
            continue
        stripped = line.rstrip()
        if (len(stripped) - len(stripped.rstrip("\\"))) % 2:
            logical += stripped[:-1]
            continue
        logical += stripped
        match = re.match(r"((?:[^\\:=\s]|\\.)+)\s*[:=]?\s*(.*)", logical, re.DOTALL)
        if match:
            properties[_unescaped(match[1])] = _unescaped(match[2])
        logical = ""
    return properties


def _unescaped(text: str) -> str:
    def one(match: re.Match[str]) -> str:
        escaped = match[1]
        if escaped[0] == "u":
            return chr(int(escaped[1:], 16))
        return {"n": "\n", "t": "\t", "r": "\r", "f": "\f"}.get(escaped, escaped)

    return re.sub(r"\\(u[0-9a-fA-F]{4}|.)", one, text)


def from_java(properties: Mapping[str, str], *, place: str) -> dict[str, str]:
    config: dict[str, str] = {}
    faults = []
    for name, value in properties.items():
        if name in _SAME_NAME:
            config[name] = value
        elif name in _RENAMED:
            config[_RENAMED[name]] = value
        elif name == "sasl.jaas.config":
            faults += _put_jaas(value, config, place)
        elif name == "ssl.truststore.location":
            faults += _put_truststore(value, properties, config, place)
        elif name == "ssl.keystore.location":
            faults += _put_keystore(value, properties, config, place)
        elif name == "ssl.endpoint.identification.algorithm":
            config[name] = value or "none"
        elif not _IGNORED.fullmatch(name):
            faults.append(f"{place}: {name} is not supported here; take it out, or give librdkafka's own with -X.")
    if faults:
        raise Misconfigured(*faults)
    return config


def _put_jaas(value: str, config: dict[str, str], place: str) -> list[str]:
    match = _JAAS.match(value)
    module = match["module"].rpartition(".")[2] if match else ""
    if match is None or module not in ("PlainLoginModule", "ScramLoginModule"):
        named = module or "no login module"
        return [f"{place}: sasl.jaas.config has {named}; only PlainLoginModule and ScramLoginModule are read, give "
                f"others as librdkafka settings with -X."]  # fmt: skip
    options = {name: re.sub(r"\\(.)", r"\1", double) or single or bare
               for name, double, single, bare in _JAAS_OPTION.findall(match["options"])}  # fmt: skip
    if missing := [name for name in ("username", "password") if name not in options]:
        return [f"{place}: sasl.jaas.config has no {' and no '.join(missing)}."]
    config["sasl.username"], config["sasl.password"] = options["username"], options["password"]
    return []


def _put_truststore(value: str, properties: Mapping[str, str], config: dict[str, str], place: str) -> list[str]:
    if properties.get("ssl.truststore.type", "JKS").upper() != "PEM" and not value.endswith((".pem", ".crt")):
        return [f"{place}: the truststore {value} is not PEM, which librdkafka needs; export it with `keytool -list "
                f"-rfc -keystore {value}` and set ssl.truststore.type=PEM."]  # fmt: skip
    config["ssl.ca.location"] = value
    return []


def _put_keystore(value: str, properties: Mapping[str, str], config: dict[str, str], place: str) -> list[str]:
    kind = properties.get("ssl.keystore.type", "JKS").upper()
    if kind == "PEM" or value.endswith(".pem"):
        config["ssl.certificate.location"] = config["ssl.key.location"] = value
    elif kind == "PKCS12" or value.endswith((".p12", ".pfx")):
        config["ssl.keystore.location"] = value
    else:
        return [f"{place}: the keystore {value} is not PKCS12 or PEM, which librdkafka needs; convert it with "
                f"`keytool -importkeystore -deststoretype PKCS12`."]  # fmt: skip
    return []


def parse_overrides(pairs: Iterable[str]) -> dict[str, str]:
    """`-X key=value` options. Raises Misconfigured with every one that is none."""
    split = [pair.partition("=") for pair in pairs]
    if faults := [f"-X {masked_pair(name)} is not key=value." for name, equals, _ in split if not (name and equals)]:
        raise Misconfigured(*faults)
    return {name: value for name, _, value in split}


def masked_pair(pair: str) -> str:
    name, equals, _ = pair.partition("=")
    return f"{name}{equals}***" if equals and SECRET_NAME.search(name) else pair


def masked(config: Mapping[str, object]) -> dict[str, str]:
    """The settings as they may be shown."""
    return {name: "***" if SECRET_NAME.search(name) else str(value) for name, value in sorted(config.items())}


def without_secrets(message: str, config: Mapping[str, object]) -> str:
    """A message of a library that may quote settings, with every secret value in it replaced."""
    for name, value in config.items():
        if SECRET_NAME.search(name) and len(str(value)) >= 3:
            message = message.replace(str(value), "***")
    return message

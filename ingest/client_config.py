"""Kafka client settings as operators have them, as librdkafka wants them.

`--command-config` is the Java-style properties file of Kafka's own tools; `-X key=value` goes to librdkafka as it is.
Source: librdkafka CONFIGURATION.md; Kafka's AdminClientConfig, SslConfigs, SaslConfigs.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path

from ingest.errors import Misconfigured

SECRET_NAME = re.compile(
    r"password|secret|jaas|token(?!\.endpoint)|\.key$|key\.pem|oauthbearer\.config|credentials", re.IGNORECASE
)
"""Names of client properties whose values are secrets."""
_SAME_NAME = frozenset({
    "bootstrap.servers", "client.dns.lookup", "client.id", "client.rack", "connections.max.idle.ms",
    "metadata.max.age.ms", "reconnect.backoff.max.ms", "reconnect.backoff.ms", "retry.backoff.ms",
    "sasl.kerberos.kinit.cmd", "sasl.kerberos.service.name", "sasl.mechanism", "sasl.oauthbearer.scope",
    "sasl.oauthbearer.token.endpoint.url", "sasl.password", "sasl.username", "security.protocol",
    "socket.connection.setup.timeout.ms", "ssl.ca.location", "ssl.certificate.location", "ssl.cipher.suites",
    "ssl.key.location", "ssl.key.password", "ssl.keystore.password",
})  # fmt: skip
_RENAMED = {
    "ssl.truststore.certificates": "ssl.ca.pem",
    "ssl.keystore.certificate.chain": "ssl.certificate.pem",
    "ssl.keystore.key": "ssl.key.pem",
    "sasl.oauthbearer.client.credentials.client.id": "sasl.oauthbearer.client.id",
    "sasl.oauthbearer.client.credentials.client.secret": "sasl.oauthbearer.client.secret",
    "request.timeout.ms": "socket.timeout.ms",
    "send.buffer.bytes": "socket.send.buffer.bytes",
    "receive.buffer.bytes": "socket.receive.buffer.bytes",
}
_OAUTH_OPTIONS = {
    "clientId": "sasl.oauthbearer.client.id", "clientSecret": "sasl.oauthbearer.client.secret",
    "scope": "sasl.oauthbearer.scope",
}  # fmt: skip
_IGNORED = re.compile(
    r"(key|value)\.(de)?serializer|group\.id|enable\.auto\.commit|auto\.offset\.reset|isolation\.level|acks|retries"
    r"|default\.api\.timeout\.ms|max\.poll\..*|fetch\..*|sasl\.login\..*|ssl\.protocol|ssl\.enabled\.protocols"
    r"|ssl\.truststore\.password|ssl\.(truststore|keystore)\.type"
)
"""Properties that Java's clients alone have, or that we set ourselves: they are ignored, and nothing is said."""
_JAAS = re.compile(r"^\s*(?P<module>[\w.]+)\s+\w+\s*(?P<options>.*?);?\s*$", re.DOTALL)
_JAAS_OPTION = re.compile(r"""(\w+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|'([^']*)'|([^\s;]+))""")


def read_command_config(path: str | Path) -> dict[str, str]:
    """A Java-style properties file as librdkafka settings. Raises Misconfigured with every fault at once."""
    try:
        text = Path(path).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or error
        raise Misconfigured(f"The command config {path} cannot be read ({why}); check --command-config.") from error
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
    mechanism = properties.get("sasl.mechanism", "").upper()
    if mechanism == "OAUTHBEARER" and "enable.sasl.oauthbearer.unsecure.jwt" not in config:
        config["sasl.oauthbearer.method"] = "oidc"
        if "sasl.oauthbearer.token.endpoint.url" not in config:
            faults.append(f"{place}: sasl.mechanism is OAUTHBEARER; sasl.oauthbearer.token.endpoint.url must say where "
                          f"its tokens come from.")  # fmt: skip
    elif mechanism == "GSSAPI":
        faults.append(f"{place}: sasl.mechanism is GSSAPI (Kerberos), which this client lacks; give the user "
                      f"SCRAM, a certificate or OAUTHBEARER.")  # fmt: skip
    if faults:
        raise Misconfigured(*faults)
    return config


def _put_jaas(value: str, config: dict[str, str], place: str) -> list[str]:
    match = _JAAS.match(value)
    module = match["module"].rpartition(".")[2] if match else ""
    if match is None or module not in ("PlainLoginModule", "ScramLoginModule", "OAuthBearerLoginModule"):
        named = module or "no login module"
        return [f"{place}: sasl.jaas.config has {named}; PlainLoginModule, ScramLoginModule and "
                f"OAuthBearerLoginModule are read. Give the user another way in: this client has neither Kerberos nor "
                f"cloud logins."]  # fmt: skip
    options = {name: re.sub(r"\\(.)", r"\1", double) or single or bare
               for name, double, single, bare in _JAAS_OPTION.findall(match["options"])}  # fmt: skip
    if module == "OAuthBearerLoginModule":
        return _put_oauth(options, config, place)
    if missing := [name for name in ("username", "password") if name not in options]:
        return [f"{place}: sasl.jaas.config has no {' and no '.join(missing)}."]
    config["sasl.username"], config["sasl.password"] = options["username"], options["password"]
    return []


def _put_oauth(options: Mapping[str, str], config: dict[str, str], place: str) -> list[str]:
    """Client credentials (KIP-768), or an unsecured token (KIP-255). KIP-1139's properties need no options."""
    if (subject := options.get("unsecuredLoginStringClaim_sub")) is not None:
        config |= {"enable.sasl.oauthbearer.unsecure.jwt": "true", "sasl.oauthbearer.config": f"principal={subject}"}
        return []
    if options and (missing := [name for name in ("clientId", "clientSecret") if name not in options]):
        return [f"{place}: sasl.jaas.config has no {' and no '.join(missing)}."]
    for name, ours in _OAUTH_OPTIONS.items():
        if name in options:
            config[ours] = options[name]
    extensions = {name.removeprefix("extension_"): value for name, value in options.items() if "extension_" in name}
    if extensions:
        config["sasl.oauthbearer.extensions"] = ",".join(f"{name}={value}" for name, value in extensions.items())
    return []


def _put_truststore(value: str, properties: Mapping[str, str], config: dict[str, str], place: str) -> list[str]:
    """librdkafka takes trusted certificates as PEM alone; PKCS12 is opened here, JKS by Java's keytool."""
    password = properties.get("ssl.truststore.password", "")
    kind = _kind_of_store(value, properties.get("ssl.truststore.type", "JKS"))
    if kind == "PEM":
        config["ssl.ca.location"] = value
        return []
    read = _pkcs12_certificates if kind == "PKCS12" else _jks_certificates
    try:
        config["ssl.ca.pem"] = read(value, password)
    except (OSError, ValueError) as error:
        return [f"{place}: the truststore {value} cannot be opened ({error}); check ssl.truststore.location and "
                f"ssl.truststore.password, or export it as PEM with `keytool -list -rfc -keystore {value}` and set "
                f"ssl.truststore.type=PEM."]  # fmt: skip
    return []


def _kind_of_store(path: str, stated: str) -> str:
    """The kind of store, by its first bytes. Java's keytool writes PKCS12 under any name, and Java opens it as JKS."""
    try:
        with Path(path).open("rb") as file:
            first = file.read(4)
    except OSError:
        first = b""
    if first == b"\xfe\xed\xfe\xed":
        return "JKS"
    if first[:1] == b"0":
        return "PKCS12"
    if first or path.endswith((".pem", ".crt")) or stated.upper() == "PEM":
        return "PEM"
    return "PKCS12" if path.endswith((".p12", ".pfx")) else stated.upper()


def _pkcs12_certificates(path: str, password: str) -> str:
    from cryptography.hazmat.primitives.serialization import Encoding, pkcs12

    opened = pkcs12.load_pkcs12(Path(path).read_bytes(), password.encode() or None)
    held = [*([opened.cert] if opened.cert is not None else []), *opened.additional_certs]
    if not held:
        raise ValueError("it holds no certificate")
    return "".join(each.certificate.public_bytes(Encoding.PEM).decode() for each in held)


def _jks_certificates(path: str, password: str) -> str:
    if not Path(path).is_file():
        raise OSError("there is no such file")
    if shutil.which("keytool") is None:
        raise OSError("it is JKS, which only Java's keytool reads, and there is no keytool here")
    command = ["keytool", "-list", "-rfc", "-keystore", path, "-storepass:env", "REBALANCE_AUDIT_STORE"]
    done = subprocess.run(
        command, env={**os.environ, "REBALANCE_AUDIT_STORE": password}, capture_output=True, text=True, check=False
    )
    found = re.findall(r"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----\n?", done.stdout, re.DOTALL)
    if done.returncode != 0 or not found:
        said = (done.stdout or done.stderr).strip().splitlines()
        raise ValueError(said[0] if said else "it holds no certificate")
    return "".join(found)


def _put_keystore(value: str, properties: Mapping[str, str], config: dict[str, str], place: str) -> list[str]:
    kind = _kind_of_store(value, properties.get("ssl.keystore.type", "JKS"))
    if kind == "PEM":
        config["ssl.certificate.location"] = config["ssl.key.location"] = value
    elif kind == "PKCS12":
        config["ssl.keystore.location"] = value
    else:
        return [f"{place}: the keystore {value} is not PKCS12 or PEM, which librdkafka needs; convert it with "
                f"`keytool -importkeystore -srckeystore {value} -destkeystore client.p12 "
                f"-deststoretype PKCS12`."]  # fmt: skip
    return []


def parse_overrides(pairs: Iterable[str]) -> dict[str, str]:
    """`-X key=value` options. Raises Misconfigured with every option that is not of this form."""
    split = [pair.partition("=") for pair in pairs]
    if faults := [
        f"-X {masked_pair(name)} is not key=value; write it as -X client.id=audit."
        for name, equals, _ in split
        if not (name and equals)
    ]:
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

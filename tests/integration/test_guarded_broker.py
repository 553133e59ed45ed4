"""Every way into a guarded broker, every way to be refused, and the rights that suffice: one real broker with a
listener for each, an OpenID provider that gives its tokens, and the command as an operator calls it."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.dataset
import pytest

from tests.integration.test_whole_path import ROOT, called
from tests.tools import need

if TYPE_CHECKING:
    from infra.lab.cluster import Cluster
    from infra.lab.security import Authority, Certified

pytestmark = pytest.mark.broker

USER, PASSWORD, SECRET = "auditor", "right-password", "right-secret"
OFFSETS, STATUS = "__consumer_offsets", "connect-status"
SECURITY = "org.apache.kafka.common.security"


@dataclass(frozen=True, slots=True, kw_only=True)
class Guarded:
    folder: Path
    cluster: Cluster
    ours: Authority
    others: Authority
    identities: dict[str, Certified]
    token_url: str
    ended: dict[str, str]
    """When a certificate ended, as text, by the name of its identity."""

    def properties(self, name: str) -> tuple[str, dict[str, str]]:
        """(listener, client properties as Kafka's tools take them) of a case below."""
        ca = {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(self.ours.certificate)}
        tls = {"security.protocol": "SSL", **ca}
        sasl = {"security.protocol": "SASL_SSL", **ca}
        oauth = {**sasl, "sasl.mechanism": "OAUTHBEARER", "sasl.oauthbearer.token.endpoint.url": self.token_url}
        listener, _, case = name.partition(": ")
        own = {each: self._keystore(each) for each in self.identities}
        return listener, {
            "TLS": tls,
            "PKCS12 truststore": {
                "security.protocol": "SSL", "ssl.truststore.location": str(self.ours.store),
                "ssl.truststore.password": "lab-store-password",
            },
            "JKS truststore": {
                "security.protocol": "SSL", "ssl.truststore.location": str(self.folder / "trust.jks"),
                "ssl.truststore.password": "lab-store-password",
            },
            "another authority": {**tls, "ssl.truststore.location": str(self.others.certificate)},
            "a client's certificate": {**tls, **own[USER]},
            "a client's PEM": {
                **tls, "ssl.keystore.type": "PEM", "ssl.keystore.location": str(self.identities[USER].both)
            },
            "a stranger's certificate": {**tls, **own["stranger"]},
            "a certificate that ended": {**tls, **own["late"]},
            "a wrong store password": {**tls, **own[USER], "ssl.keystore.password": "wrong-password"},
            "no truststore file": {**tls, "ssl.truststore.location": "/nowhere/ca.pem"},
            "PLAIN": {**sasl, **jaas("PLAIN")},
            "PLAIN without TLS": {"security.protocol": "SASL_PLAINTEXT", **jaas("PLAIN")},
            "SCRAM without TLS": {"security.protocol": "SASL_PLAINTEXT", **jaas("SCRAM-SHA-512")},
            "SCRAM-SHA-256": {**sasl, **jaas("SCRAM-SHA-256")},
            "SCRAM-SHA-512": {**sasl, **jaas("SCRAM-SHA-512")},
            "PLAIN, wrong password": {**sasl, **jaas("PLAIN", password="wrong-password")},
            "SCRAM, wrong password": {**sasl, **jaas("SCRAM-SHA-512", password="wrong-password")},
            "SCRAM, nobody": {**sasl, **jaas("SCRAM-SHA-256", user="nobody")},
            "OAUTHBEARER": {**oauth, "sasl.jaas.config": oauth_login(SECRET)},
            "OAUTHBEARER by properties": {
                **oauth, "sasl.oauthbearer.client.credentials.client.id": USER,
                "sasl.oauthbearer.client.credentials.client.secret": SECRET,
            },
            "OAUTHBEARER, wrong secret": {**oauth, "sasl.jaas.config": oauth_login("wrong-secret")},
            "OAUTHBEARER, no endpoint": {
                **oauth, "sasl.oauthbearer.token.endpoint.url": "http://localhost:1/token",
                "sasl.jaas.config": oauth_login(SECRET),
            },
            "OAUTHBEARER, a token nobody signed": {
                **sasl, "sasl.mechanism": "OAUTHBEARER", "sasl.jaas.config":
                f'{SECURITY}.oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="{USER}";',
            },
            "PLAINTEXT": {},
        }[case]  # fmt: skip

    def _keystore(self, name: str) -> dict[str, str]:
        return {
            "ssl.keystore.location": str(self.identities[name].store), "ssl.keystore.password": "lab-store-password"
        }  # fmt: skip

    def called(self, verb: str, case: str, *more: str) -> subprocess.CompletedProcess[str]:
        listener, properties = self.properties(case)
        file = self.folder / "client.properties"
        file.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
        address = self.cluster.bootstrap if listener == "PLAIN" else self.cluster.address(listener)
        return called(verb, "-b", address, "--command-config", str(file), *more)


def jaas(mechanism: str, *, user: str = USER, password: str = PASSWORD) -> dict[str, str]:
    module = "plain.PlainLoginModule" if mechanism == "PLAIN" else "scram.ScramLoginModule"
    return {
        "sasl.mechanism": mechanism,
        "sasl.jaas.config": f'{SECURITY}.{module} required username="{user}" password="{password}";',
    }


def oauth_login(secret: str) -> str:
    return f'{SECURITY}.oauthbearer.OAuthBearerLoginModule required clientId="{USER}" clientSecret="{secret}";'


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    from confluent_kafka import Consumer
    from confluent_kafka.admin import (
        AdminClient,
        NewTopic,
        ScramCredentialInfo,
        ScramMechanism,
        UserScramCredentialUpsertion,
    )

    from infra.lab.cluster import Cluster
    from infra.lab.identity import IdentityProvider

    need("npm", "install Node.js 20: the identity provider is an npm package")
    from infra.lab.security import LISTENERS, STORE_PASSWORD, Authority, guarded_properties, oauth_flags
    from infra.lab.shape import ClusterShape

    folder = tmp_path_factory.mktemp("guarded")
    ours, others = Authority(folder, "lab-ca"), Authority(folder, "other-ca")
    identities = {USER: ours.issue(USER), "stranger": others.issue("stranger"), "late": ours.issue("late", days=-2)}
    expired = ours.issue("broker-expired", days=-3)
    servers = {
        "": ours.issue("broker"), "EXPIRED": expired,
        "ELSEWHERE": ours.issue("broker-elsewhere", host="kafka.example.org"),
    }  # fmt: skip
    subprocess.run(
        ["keytool", "-importcert", "-noprompt", "-storetype", "JKS", "-alias", "ca", "-file", str(ours.certificate),
         "-keystore", str(folder / "trust.jks"), "-storepass", STORE_PASSWORD], check=True, capture_output=True,
    )  # fmt: skip
    client = {"client_id": USER, "client_secret": SECRET, "grant_types": ["client_credentials"],
              "redirect_uris": [], "response_types": []}  # fmt: skip
    (lab := folder / "lab").mkdir()
    with IdentityProvider(folder, clients=[client], accounts={}, audience="urn:kafka") as provider:
        token_url, keys_url = f"{provider.issuer}/token", f"{provider.issuer}/jwks"
        rights = guarded_properties(ours, servers, {USER: PASSWORD}, jwks_url=keys_url, audience="urn:kafka")
        flags = oauth_flags(token_url, keys_url)
        shape = ClusterShape(listeners=LISTENERS, broker_properties=rights, broker_flags=flags)
        with Cluster(shape, folder=lab) as cluster:
            admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
            admin.create_topics([NewTopic("orders", 1)])["orders"].result(30)
            admin.create_topics([NewTopic(STATUS, 1, config={"cleanup.policy": "compact"})])[STATUS].result(30)
            for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
                made = UserScramCredentialUpsertion(USER, ScramCredentialInfo(mechanism, 4096), PASSWORD.encode())
                for done in admin.alter_user_scram_credentials([made]).values():
                    done.result(30)
            consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "orders-app"})
            consumer.subscribe(["orders"])
            while not consumer.assignment():
                consumer.poll(0.2)
            consumer.close()
            yield Guarded(
                folder=folder, cluster=cluster, ours=ours, others=others, identities=identities, token_url=token_url,
                ended={"late": until(identities["late"]), "broker-expired": until(expired)},
            )  # fmt: skip


def until(identity: Certified) -> str:
    """When a certificate ends, as OpenSSL's own command prints it."""
    said = subprocess.run(
        ["openssl", "x509", "-noout", "-enddate", "-in", str(identity.certificate)], capture_output=True, text=True,
        check=True,
    ).stdout  # fmt: skip
    ended = time.strptime(said.strip().removeprefix("notAfter="), "%b %d %H:%M:%S %Y GMT")
    return time.strftime("%Y-%m-%d %H:%M UTC", ended)


REFUSED = {
    "TLS: another authority": r"CN=broker of localhost:\d+, issued by CN=lab-ca, is of an authority that is not",
    "EXPIRED: TLS": r"certificate CN=broker-expired of localhost:\d+ expired on {broker-expired}; have the broker's",
    "ELSEWHERE: TLS": r"CN=broker-elsewhere of localhost:\d+ is not for localhost but for kafka\.example\.org",
    "MUTUAL: TLS": r"asks for a client certificate and none is given; set ssl\.keystore\.location",
    "MUTUAL: a stranger's certificate": r"does not accept our certificate CN=stranger, issued by CN=other-ca",
    "MUTUAL: a certificate that ended": r"Our own certificate CN=late expired on {late}",
    "MUTUAL: a wrong store password": r"ssl\.keystore\.password does not open .*auditor\.p12",
    "TLS: no truststore file": r"Java's ssl\.truststore\.location, is /nowhere/ca\.pem, which is not there",
    "SASL: PLAIN, wrong password": r"refused user 'auditor' or the password \(PLAIN\)",
    "SASL: SCRAM, wrong password": r"refused user 'auditor' or the password \(SCRAM-SHA-512\)",
    "SASL: SCRAM, nobody": r"refused user 'nobody' or the password \(SCRAM-SHA-256\)",
    "SASL: OAUTHBEARER, wrong secret": r"No token from http://localhost:\d+/token for client 'auditor' \(.*client",
    "SASL: OAUTHBEARER, no endpoint": r"No token from http://localhost:1/token for client 'auditor' \(.*connect",
    "SASL: OAUTHBEARER, a token nobody signed": r"refused the token \(OAUTHBEARER\)",
    "TLS: PLAINTEXT": r"localhost:\d+ speaks TLS and security\.protocol is PLAINTEXT; set it to SSL or SASL_SSL",
    "PLAIN: TLS": r"localhost:\d+ (speaks no TLS|broke off)",
    "TLS: PLAIN": r"does no SASL and security\.protocol is SASL_SSL; set it to SSL",
    "OPEN: PLAINTEXT": r"does not answer; if its listener is SASL_PLAINTEXT and not PLAINTEXT, set",
    "OPEN: SCRAM without TLS": r"does not take sasl\.mechanism SCRAM-SHA-512; it takes PLAIN\.",
}


@pytest.mark.parametrize("case", REFUSED)
def test_each_refusal_is_one_sentence_that_names_it(guarded: Guarded, tmp_path: Path, case: str) -> None:
    collected = guarded.called("collect", case, "--until-end", "-w", str(tmp_path / "w"))
    assert collected.returncode == 1
    (sentence,) = collected.stderr.strip().splitlines()
    expected = REFUSED[case]
    for name, ended in guarded.ended.items():
        expected = expected.replace(f"{{{name}}}", re.escape(ended))
    assert re.search(expected, sentence), sentence
    for secret in (PASSWORD, SECRET, "wrong-password", "wrong-secret", "lab-store-password"):
        assert secret not in collected.stderr


def test_watch_and_doctor_say_the_same(guarded: Guarded, tmp_path: Path) -> None:
    expected = "refused user 'auditor' or the password (SCRAM-SHA-512)"
    watched = guarded.called("watch", "SASL: SCRAM, wrong password", "-w", str(tmp_path / "w"), "--engine", "local")
    assert watched.returncode == 1
    assert expected in watched.stderr
    looked = guarded.called("doctor", "SASL: SCRAM, wrong password")
    assert looked.returncode == 1
    assert expected in looked.stdout


def test_doctor_tries_every_cluster_of_the_settings(guarded: Guarded, tmp_path: Path) -> None:
    ca, secret, logs = guarded.ours.certificate, tmp_path / "password", tmp_path / "logs"
    secret.write_text("wrong-password\n")
    logs.mkdir()
    (logs / "server.log").write_text("x")
    (file := tmp_path / "settings.yaml").write_text(f"""
clusters:
  - name: shop
    bootstrap_servers: {guarded.cluster.address("TLS")}
    cluster_id: {guarded.cluster.cluster_id}
    client: {{security.protocol: SSL, ssl.truststore.type: PEM, ssl.truststore.location: {ca}}}
    connect_topics: {{{STATUS}: status}}
    logs: [broker-1={logs}]
  - name: bank
    bootstrap_servers: {guarded.cluster.address("SASL")}
    client:
      security.protocol: SASL_SSL
      ssl.truststore.type: PEM
      ssl.truststore.location: {ca}
      sasl.mechanism: SCRAM-SHA-512
      sasl.username: auditor
      sasl.password: {{file: {secret}}}
    metadata: [{tmp_path}]
""")
    looked = called("doctor", "--config", str(file), "-o", "json")
    assert looked.returncode == 1
    found = {row["subject"]: row for row in json.loads(looked.stdout)}
    states = {subject: row["state"] for subject, row in found.items() if subject.startswith(("shop", "bank"))}
    assert states == {
        "shop: client": "ok", "shop: brokers": "ok", f"shop: {OFFSETS}": "ok", f"shop: {STATUS}": "ok",
        "shop: logs broker-1": "ok", "bank: client": "ok", "bank: brokers": "fault", "bank: metadata": "fault",
    }  # fmt: skip
    assert "refused user 'auditor' or the password (SCRAM-SHA-512)" in found["bank: brokers"]["detail"]
    assert "sasl.password=***" in found["bank: client"]["detail"]
    assert "wrong-password" not in looked.stdout + looked.stderr
    only = called("doctor", "--config", str(file), "--cluster", "shop")
    assert "bank" not in only.stdout


def test_each_missing_right_is_named_and_the_lines_of_the_page_suffice(guarded: Guarded, tmp_path: Path) -> None:
    collect = ("--until-end", "-t", f"{STATUS}=status", "-w", str(tmp_path / "w"))
    adds = (
        f"kafka-acls.sh --add --operation Describe --operation Read --topic {OFFSETS} --allow-principal 'User:{USER}'"
    )
    refused = guarded.called("collect", "SASL: PLAIN", *collect)
    assert refused.returncode == 1
    assert "who lacks DESCRIBE" in refused.stderr
    assert adds in refused.stderr
    assert f"Topic {STATUS}" in refused.stderr

    acls(guarded, f"--add --allow-principal User:{USER} --operation Describe --topic {OFFSETS}")
    refused = guarded.called("collect", "SASL: PLAIN", *collect)
    assert refused.returncode == 1
    assert f"Topic {OFFSETS}" in refused.stderr
    assert "who lacks READ" in refused.stderr
    assert adds in refused.stderr

    lines = lines_of_the_page()
    assert len(lines) == 3
    acls(guarded, lines[0])
    half = guarded.called("collect", "SASL: PLAIN", *collect)
    assert half.returncode == 0
    assert f"Topic {STATUS}" in half.stderr  # what is not readable is said, the rest is read
    for line in lines[1:]:
        acls(guarded, line)
    looked = guarded.called("doctor", "SASL: PLAIN", "-t", f"{STATUS}=status")
    assert f"{OFFSETS}  readable" in re.sub(" +", "  ", looked.stdout)
    assert f"{STATUS}  readable" in re.sub(" +", "  ", looked.stdout)
    collected = guarded.called("collect", "SASL: PLAIN", *collect)
    assert collected.returncode == 0
    assert "may not be read" not in collected.stderr
    landed = pyarrow.dataset.dataset(tmp_path / "w/landing/record").to_table(columns=["topic"])
    assert OFFSETS in landed["topic"].to_pylist()
    explained = guarded.called("explain", "SASL: PLAIN", "orders-app")
    assert explained.returncode == 0, explained.stderr
    assert "orders-0" in explained.stdout

    acls(guarded, f"--remove --force --allow-principal User:{USER} --operation Describe --topic {OFFSETS}")
    acls(guarded, f"--add --allow-principal User:CN={USER} --operation Read --topic {OFFSETS}")
    acls(guarded, f"--add --allow-principal User:{USER} --operation Read --topic {OFFSETS}")
    assert guarded.called("collect", "SASL: PLAIN", *collect).returncode == 0  # READ alone brings DESCRIBE


ACCEPTED = [
    "SASL: PLAIN", "SASL: SCRAM-SHA-256", "SASL: SCRAM-SHA-512", "SASL: OAUTHBEARER", "SASL: OAUTHBEARER by properties",
    "OPEN: PLAIN without TLS", "MUTUAL: a client's certificate", "MUTUAL: a client's PEM", "TLS: TLS",
    "TLS: PKCS12 truststore", "TLS: JKS truststore",
]  # fmt: skip
"""The rights of the test before stand: User:auditor by SASL, User:CN=auditor by certificate; TLS alone is the lab's
own user."""


@pytest.mark.parametrize("case", ACCEPTED)
def test_each_way_in_reads_the_topic(guarded: Guarded, case: str) -> None:
    explained = guarded.called("explain", case, "orders-app")
    assert explained.returncode == 0, explained.stderr
    assert "orders-0" in explained.stdout


def lines_of_the_page() -> list[str]:
    """The rights that docs/access.md gives, topic by topic, as Kafka's own tool takes them."""
    page = (ROOT / "docs/access.md").read_text().replace("\\\n", "")
    topics = re.findall(r"^for topic in (.+); do$", page, re.MULTILINE)
    commands = re.findall(r"^ *kafka-acls\.sh --bootstrap-server \S+ --command-config \S+ (.*)$", page, re.MULTILINE)
    assert len(topics) == len(commands) == 1
    command = commands[0].replace("$WE", f"User:{USER}")
    return [command.replace("$topic", topic) for topic in topics[0].split()]


def acls(guarded: Guarded, line: str) -> None:
    """Kafka's own tool."""
    from infra.lab import configs
    from infra.lab.run_folder import SMALL_HEAP

    cluster = guarded.cluster
    layout = configs.single_log_layout("acls.log")
    words = ["--bootstrap-server", cluster.bootstrap, *shlex.split(line)]
    cluster.run(cluster.java("acls", layout, SMALL_HEAP, "org.apache.kafka.tools.AclCommand", *words))

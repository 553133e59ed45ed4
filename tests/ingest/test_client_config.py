from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from infra.lab.security import STORE_PASSWORD, Authority
from ingest.broker import LiveCluster
from ingest.client_config import (
    from_java,
    masked,
    masked_pair,
    parse_overrides,
    parse_properties,
    read_command_config,
    without_secrets,
)
from ingest.errors import Misconfigured


def test_properties_are_read_as_java_reads_them() -> None:
    text = (
        "# comment\n! also\n\nplain=value\n  spaced   =  two words  \ncolon: c\nblank value\nempty=\n"
        "long=one,\\\n    two\\\n   ,three\nescaped\\=key=a\\tb\\u0041\\\\\nodd=ends with backslash\\\\\n"
    )
    assert parse_properties(text) == {
        "plain": "value", "spaced": "two words", "colon": "c", "blank": "value", "empty": "",
        "long": "one,two,three", "escaped=key": "a\tbA\\", "odd": "ends with backslash\\",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("jaas", "user", "password"),
    [
        ('org.apache.kafka.common.security.scram.ScramLoginModule required username="ada" password="p w;\\"=1";',
         "ada", 'p w;"=1'),
        ("x.PlainLoginModule required\n  username='bob'\n  password='x';", "bob", "x"),
        ("org.apache.kafka.common.security.plain.PlainLoginModule required username=c password=d;", "c", "d"),
    ],
)  # fmt: skip
def test_user_and_password_come_out_of_jaas(jaas: str, user: str, password: str) -> None:
    config = from_java({"sasl.jaas.config": jaas}, place="p")
    assert config == {"sasl.username": user, "sasl.password": password}


def test_a_usual_secured_client_is_understood_by_librdkafka(tmp_path: Path) -> None:
    path = tmp_path / "client.properties"
    path.write_text(
        "bootstrap.servers=127.0.0.1:1\nsecurity.protocol=SASL_SSL\nsasl.mechanism=SCRAM-SHA-512\n"
        "sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required \\\n"
        '  username="ada" password="secret";\n'
        "ssl.endpoint.identification.algorithm=\nkey.deserializer=x.Y\ngroup.id=mine\nrequest.timeout.ms=30000\n"
    )
    config = read_command_config(path)
    assert config["ssl.endpoint.identification.algorithm"] == "none"
    assert config["socket.timeout.ms"] == "30000"
    assert "group.id" not in config
    AdminClient({**config, "log_level": 0})  # raises for a name or value librdkafka does not know


def test_all_faults_are_shown_at_once_each_with_its_remedy() -> None:
    properties = {
        "ssl.truststore.location": "/etc/trust.jks",
        "ssl.keystore.location": "/etc/key.jks",
        "sasl.jaas.config": "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true;",
        "no.such.setting": "1",
    }
    with pytest.raises(Misconfigured) as raised:
        from_java(properties, place="client.properties")
    assert len(raised.value.faults) == 4
    assert all(fault.startswith("client.properties: ") for fault in raised.value.faults)
    for part in ("keytool -list", "PKCS12", "Krb5LoginModule", "no.such.setting is not supported"):
        assert part in str(raised.value)


def test_pem_and_pkcs12_stores_are_passed_on() -> None:
    assert from_java(
        {"ssl.truststore.type": "PEM", "ssl.truststore.location": "/ca", "ssl.keystore.location": "/me.p12",
         "ssl.keystore.password": "x"}, place="p"
    ) == {"ssl.ca.location": "/ca", "ssl.keystore.location": "/me.p12", "ssl.keystore.password": "x"}  # fmt: skip
    assert from_java({"ssl.keystore.type": "PEM", "ssl.keystore.location": "/me"}, place="p") == {
        "ssl.certificate.location": "/me", "ssl.key.location": "/me"
    }  # fmt: skip


def test_a_jaas_without_a_password_says_so_and_does_not_show_the_rest() -> None:
    with pytest.raises(Misconfigured, match="no password") as raised:
        from_java({"sasl.jaas.config": 'x.PlainLoginModule required username="ada";'}, place="p")
    assert "ada" not in str(raised.value)


def test_a_missing_file_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(Misconfigured, match=r"The command config .*nope cannot be read"):
        read_command_config(tmp_path / "nope")


def test_overrides_are_split_at_the_first_equals_sign() -> None:
    assert parse_overrides(["a=b=c", "d="]) == {"a": "b=c", "d": ""}
    with pytest.raises(Misconfigured) as raised:
        parse_overrides(["novalue", "=x", "ok=1"])
    assert len(raised.value.faults) == 2


def test_secrets_are_masked_wherever_settings_are_shown() -> None:
    config = {"sasl.password": "hunter2", "ssl.key.pem": "-----BEGIN", "client.id": "me", "ssl.key.location": "/k"}
    assert masked(config) == {
        "client.id": "me", "sasl.password": "***", "ssl.key.location": "/k", "ssl.key.pem": "***"
    }  # fmt: skip
    assert masked_pair("sasl.password=hunter2") == "sasl.password=***"
    assert masked_pair("client.id=me") == "client.id=me"
    assert without_secrets("bad value hunter2 for me", config) == "bad value *** for me"


def test_an_oauth_login_becomes_client_credentials() -> None:
    login = (
        "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required "
        'clientId="ada" clientSecret="hunter2" scope="read" extension_tenant="shop";'
    )
    url = "https://login.example.org/token"
    config = from_java(
        {"sasl.mechanism": "OAUTHBEARER", "sasl.jaas.config": login, "sasl.oauthbearer.token.endpoint.url": url},
        place="p",
    )
    assert config == {
        "sasl.mechanism": "OAUTHBEARER", "sasl.oauthbearer.method": "oidc", "sasl.oauthbearer.client.id": "ada",
        "sasl.oauthbearer.client.secret": "hunter2", "sasl.oauthbearer.scope": "read",
        "sasl.oauthbearer.extensions": "tenant=shop", "sasl.oauthbearer.token.endpoint.url": url,
    }  # fmt: skip
    AdminClient({**config, "log_level": 0})  # raises for a name or value librdkafka does not know
    assert masked(config)["sasl.oauthbearer.token.endpoint.url"] == url
    assert masked(config)["sasl.oauthbearer.client.secret"] == "***"


def test_oauth_without_a_place_for_tokens_and_kerberos_are_faults() -> None:
    login = "x.OAuthBearerLoginModule required clientId=a clientSecret=b;"
    with pytest.raises(Misconfigured, match=r"token\.endpoint\.url must say"):
        from_java({"sasl.mechanism": "OAUTHBEARER", "sasl.jaas.config": login}, place="p")
    with pytest.raises(Misconfigured, match="Kerberos"):
        from_java({"sasl.mechanism": "GSSAPI"}, place="p")


def test_a_store_is_what_its_first_bytes_say(tmp_path: Path) -> None:
    authority = Authority(tmp_path, "lab-ca")
    under_another_name = tmp_path / "trust.jks"
    under_another_name.write_bytes(authority.store.read_bytes())
    store = {"ssl.truststore.location": str(under_another_name), "ssl.truststore.password": STORE_PASSWORD}
    assert from_java(store, place="p") == {"ssl.ca.pem": authority.certificate.read_text()}
    with pytest.raises(Misconfigured, match=r"trust\.jks cannot be opened") as raised:
        from_java({**store, "ssl.truststore.password": "not-it-at-all"}, place="p")
    assert "not-it-at-all" not in str(raised.value)


def test_a_limit_of_a_message_above_that_of_a_fetch_is_the_users_to_set() -> None:
    """librdkafka itself refuses a fetch.max.bytes below message.max.bytes. The cluster is its own mock."""
    settings = {"bootstrap.servers": "mock", "test.mock.num.brokers": 1, "message.max.bytes": "5000000"}
    LiveCluster(settings).consumer().close()

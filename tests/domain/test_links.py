from urllib.parse import parse_qs, urlsplit

import pytest

from rebalance_audit.domain.links import fault_of, filled

GRAFANA = "https://grafana.example/d/x?var-group={group}&from={from_ms}&to={to_ms}"


def test_values_are_encoded_and_come_out_as_they_were() -> None:
    group = 'a&b=c#d/../ü "q"\n{group}'
    address = filled(GRAFANA, {"group": group, "from_ms": 1, "to_ms": 2})
    assert address is not None
    assert urlsplit(address).hostname == "grafana.example"
    assert parse_qs(urlsplit(address).query) == {"var-group": [group], "from": ["1"], "to": ["2"]}
    assert urlsplit(address).fragment == ""


def test_a_name_cannot_leave_its_part_of_the_path() -> None:
    assert filled("https://lag.example/{cluster}/{group}", {"cluster": "../..", "group": "a/b"}) == (
        "https://lag.example/..%2F../a%2Fb"
    )


def test_a_link_that_names_what_the_page_is_not_about_is_left_out() -> None:
    assert filled("https://x/{topic}", {"group": "g", "topic": None}) is None


def test_doubled_braces_are_braces() -> None:
    assert fault_of("https://x/?q={{{group}}}") is None
    assert filled("https://x/?q={{{group}}}", {"group": "g"}) == "https://x/?q={g}"


@pytest.mark.parametrize(
    ("template", "said"),
    [
        ("javascript:alert(1)//{group}", "must begin with http"),
        ("//grafana.example/{group}", "must begin with http"),
        ("https://{group}.example/", "must begin with http"),
        ("https://user:secret@grafana.example/", "must begin with http"),
        ("https://grafana.example\\@evil.example/", "must begin with http"),
        ("https://x/{grop}", "there is no {grop}; these are: cluster, group"),
        ("https://x/{group!r}", "there is no {group}"),
        ("https://x/{group.__class__}", "there is no {group.__class__}"),
        ("https://x/{}", "there is no {}"),
        ("https://x/{group", "a brace has no partner"),
        ("https://x/?q=a b", "holds a space"),
    ],
)
def test_what_is_no_template_is_named(template: str, said: str) -> None:
    assert said in (fault_of(template) or "")


@pytest.mark.parametrize(
    "template", [GRAFANA, "http://lag:8080", "https://x?g={group}", "https://x/#/{topic}/{partition}"]
)
def test_templates(template: str) -> None:
    assert fault_of(template) is None

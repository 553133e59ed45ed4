"""Connect, and the partitions that move: what each page answers."""

from pathlib import Path

from tests.app.gold_rows import CLUSTER
from tests.app.opening import Open, links, long_tables, markup, pressed, said


def test_connect_shows_waiting_by_design_from_a_fault(opened: Open, full_warehouse: Path) -> None:
    at = opened(full_warehouse, "connect")
    text = said(at)
    assert 'class="ra-title">connect-lab<' in markup(at)
    assert "3 of 9 tasks and connectors did not run at some time: 963 task-seconds in all, 43.0 of them" in text
    assert "The longest: broken-0 did not run for 15 min: failed." in text
    assert (
        "1 task or connector is still not running at the end of the evidence: broken-0, failed: "
        "org.apache.kafka.connect.errors.ConnectException: <b>no</b> route." in text
    )
    history = long_tables(at)[0]
    waiting = history[history["state"] == "waiting, by design"]
    assert waiting["for"].tolist() == ["21.5 s", "21.5 s"]
    at.selectbox[0].set_value("sink-2").run()
    assert long_tables(at)[0]["state"].tolist() == [
        "running",
        "lost with its worker",
        "waiting, by design",
        "running",
    ]
    assert at.query_params["task"] == "sink-2"


def test_reassignments_say_first_whether_it_moves_and_what_to_type(opened: Open, full_warehouse: Path) -> None:
    at = opened(full_warehouse, "reassignments")
    text = said(at)
    assert "No: 3 of 4 partitions that move are stalled." in text
    assert "Stalled orders-4, orders-5: broker 4, where it should go, is down or fenced." in text
    assert at.code[0].value.startswith('echo \'{"version": 1, "partitions": [{"topic": "orders", "partition": 4')
    assert "Nothing is ever run from here" in text
    assert "Info Broker 2 does not lead 3 of the 9 partitions it is preferred for" in text
    assert long_tables(at)[0]["state"].head(4).tolist() == ["stalled", "stalled", "stalled", "moving"]
    at.text_input[0].set_value("ORDERS-4").run()
    assert long_tables(at)[0]["partition"].tolist() == ["orders-4"]
    assert at.query_params["search"] == "ORDERS-4"
    at.selectbox[0].set_value("completed").run()
    assert "None matches." in said(at)


def test_one_reassignment_shows_its_ladder_and_the_groups_in_time_with_it(opened: Open, full_warehouse: Path) -> None:
    at = opened(full_warehouse, "reassignment", cluster=CLUSTER, reassignment="__consumer_offsets-7@700")
    text = said(at)
    assert "It completed after 12.1 s: __consumer_offsets-7 went from [1, 2] to [3, 2]." in text
    assert "the leader moved" in text
    assert "It holds orders: the group's coordinator moved with it. 3.0 s later orders began to rebalance" in text
    link = (
        "metadata:broker-1@731, record of the metadata log",
        "evidence?cluster=lab-cluster&ref=metadata%3Abroker-1%40731",
    )
    assert any((label, address.split("&reassignment")[0]) == link for label, address in links(at))


def test_connect_shows_its_stories_in_plain_words(opened: Open, full_warehouse: Path) -> None:
    at = opened(full_warehouse, "connect")
    text = said(at)
    assert (
        "Worker 10.0.3.3:8083 went and did not come back: its 2 connectors and tasks waited 21.5 s, then moved." in text
    )
    assert "Connect waits for its return and leaves sink-2, source-1 unassigned for up to 20 s" in text
    assert text.index("Who ran what, when") < text.index("did not come back")  # the picture before the prose
    assert ("Generation 9", "rebalance?cluster=lab-cluster&rebalance=connect-lab%2F9&last=all") in links(at)
    assert pressed(at, "Look closer")["by"] == "workers"


def test_connect_shows_whose_change_stopped_whose_work(opened: Open, full_warehouse: Path) -> None:
    text = said(opened(full_warehouse, "connect"))
    assert (
        "1 of 1 change of a connector stopped work of others, who had changed nothing; the worst, of source, 2 tasks "
        "and connectors for up to 400 ms: 0.5 task-seconds in all." in text
    )
    assert "source: connector source created" in text
    assert "sink: 1 task or connector, up to 400 ms" in text
    assert "at least 2.5 task-seconds" in text


def test_the_price_of_the_eager_protocol_is_a_lower_bound(opened: Open, full_warehouse: Path) -> None:
    text = said(opened(full_warehouse, "rebalance", cluster=CLUSTER, rebalance="connect-lab/8"))
    assert "had everything stoppedat least 2.5 task-seconds, as under the eager protocol" in text

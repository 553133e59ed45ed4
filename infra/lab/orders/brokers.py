"""Orders to brokers."""

from __future__ import annotations

from infra.lab.clients import coordinator_of, prefer_first_replicas
from infra.lab.cluster import broker_name
from infra.lab.notebook import Notebook


class BrokerOrders(Notebook):
    def coordinator_killed(self, group: str) -> int:
        broker = coordinator_of(self.cluster.bootstrap, group)
        self._note("kill broker", f"broker-{broker}")
        self.cluster.kill_broker(broker)
        return broker

    def coordinator_moved(self, group: str) -> None:
        """A clean restart of the coordinator: it hands its groups over, and gets them back as preferred leader."""
        broker = coordinator_of(self.cluster.bootstrap, group)
        self._note("stop broker", f"broker-{broker}")
        self.cluster.stop_broker(broker)
        self.rest(5)
        self.broker_returns(broker)
        prefer_first_replicas(self.cluster.bootstrap, "__consumer_offsets")
        self._note("elect preferred leaders", "__consumer_offsets")

    def broker_returns(self, broker: int) -> None:
        self._note("start broker", f"broker-{broker}")
        self.cluster.start_broker(broker)

    def broker_killed(self, broker: int) -> None:
        self._note("kill broker", f"broker-{broker}")
        self.cluster.kill_broker(broker)

    def broker_upgraded(self, broker: int, version: str) -> None:
        """Stop a broker, and start it with the jars of another version."""
        self._note("stop broker", f"broker-{broker}")
        self.cluster.stop_broker(broker)
        self._note("start broker", f"broker-{broker}", version=version)
        self.cluster.start_broker(broker, version=version)

    def freeze_broker(self, broker: int, *, seconds: float) -> None:
        """SIGSTOP, and SIGCONT later: nobody is answered meanwhile, as when the network is away."""
        name = broker_name(broker)
        self.cluster.freeze_node(name)
        self._note("freeze broker", name)
        self.rest(seconds)
        self.cluster.thaw_node(name)
        self._note("thaw broker", name)

    def broker_restarts(self, broker: int) -> None:
        self._note("stop broker", f"broker-{broker}")
        self.cluster.stop_broker(broker)
        self.broker_returns(broker)

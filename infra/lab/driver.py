"""A scenario's orders to a cluster and its clients, with the driver's clock beside each step."""

from __future__ import annotations

from .orders.brokers import BrokerOrders
from .orders.connect import ConnectOrders
from .orders.consumers import ConsumerOrders
from .orders.topics import TopicOrders


class Driver(TopicOrders, ConsumerOrders, BrokerOrders, ConnectOrders):
    """Runs one scenario: acts, takes notes, and waits until the clients' own words say the groups have settled."""

    def end(self) -> None:
        """Stop what still runs; nothing from here on belongs to the capture."""
        if self._producer is not None:
            self._producer.stop()
        for client in self.clients.values():
            client.stop()

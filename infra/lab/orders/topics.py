"""Orders about topics, and what is produced to them."""

from __future__ import annotations

from collections.abc import Callable

from infra.lab.clients import SteadyProducer, add_partitions, create_topics, delete_topic
from infra.lab.cluster import Cluster
from infra.lab.notebook import Notebook


class TopicOrders(Notebook):
    def __init__(self, cluster: Cluster, say: Callable[[str], None] = lambda text: None) -> None:
        super().__init__(cluster, say)
        self._producer: SteadyProducer | None = None

    def topics(self, **partitions: int) -> None:
        create_topics(self.cluster.bootstrap, partitions, replicas=self.cluster.replicas)
        self._partitions |= partitions

    def later_topic(self, name: str, partitions: int) -> None:
        """Create a topic while groups run, and produce to it."""
        self._note("create topic", name)
        create_topics(self.cluster.bootstrap, {name: partitions}, replicas=self.cluster.replicas)
        self._partitions[name] = partitions
        if self._producer is not None:
            self._producer.add(name, range(partitions))

    def more_partitions(self, topic: str, total: int) -> None:
        self._note("add partitions", topic, total=total)
        add_partitions(self.cluster.bootstrap, topic, total)
        if self._producer is not None:
            self._producer.add(topic, range(self._partitions[topic], total))
        self._partitions[topic] = total

    def topic_deleted(self, name: str) -> None:
        """Delete a topic while groups read it. What is produced to it from here on is lost."""
        if self._producer is not None:
            self._producer.remove(name)
        self._note("delete topic", name)
        delete_topic(self.cluster.bootstrap, name)
        del self._partitions[name]

    def produce(self, *, per_second: int = 24) -> None:
        """Steadily, to every topic created so far."""
        self._producer = SteadyProducer(self.cluster.bootstrap, self._partitions, per_second=per_second)
        self._producer.start()

    def fall_silent(self) -> None:
        """Stop producing to any topic."""
        if self._producer is not None:
            self._producer.stop()
            self._producer = None
        self._note("stop producing", "steady-producer")

    def fall_silent_at(self, topic: str, *numbers: int) -> None:
        """Stop producing to these partitions; the others get records as before."""
        if self._producer is not None:
            self._producer.remove(topic, numbers)
        self._note("stop producing", topic, partitions=list(numbers))

    def go_on_at(self, topic: str, *numbers: int) -> None:
        """Produce to these partitions again."""
        if self._producer is not None:
            self._producer.add(topic, numbers)
        self._note("produce again", topic, partitions=list(numbers))

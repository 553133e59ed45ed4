"""Play a group's history again by Kafka's rules under other settings, and compare the cost."""

"""What a scenario orders, noted with the driver's clock: topics, consumers, brokers, Connect."""

"""What a group's own history would have cost under other settings: the happenings, played again by Kafka's rules."""

"""Evidence in: bytes from segments, logs and brokers to landing files. Nothing is interpreted here."""

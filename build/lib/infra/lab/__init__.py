"""Real Kafka and Connect from Maven jars, clients that write down what they saw, and captures of both.

`jars` fetches and compiles, `configs` renders settings, `processes` starts and ends what we own, `cluster` and
`clients` are made of those, `scenarios` drives them, `capture` keeps the evidence, `load` is the lab for `make live`.
"""

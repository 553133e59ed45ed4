"""The threads of `watch`: collecting, the watchdog of sources, alerts on arrival, rounds of the stages."""

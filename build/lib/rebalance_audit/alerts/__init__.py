"""Alerts: which incidents are new to a target, how each reads, where it goes, and what was sent before."""

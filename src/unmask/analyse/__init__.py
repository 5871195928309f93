"""Vectors to understanding: probes."""

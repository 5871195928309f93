"""Vectors to understanding: geometry, senses, neighbours, attention, probes."""

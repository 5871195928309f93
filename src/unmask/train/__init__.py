"""Batches and a model to a trained folder."""

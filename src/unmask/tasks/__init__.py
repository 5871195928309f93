"""Labelled data and a model -> a fine-tuned model folder."""

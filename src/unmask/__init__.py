"""unmask: from raw text to a masked language model you can use."""

__version__ = "0.1.0"

"""The network: config to encoder and heads. Knows no text and no trainer."""

"""Templates and words of the Portuguese minimal pairs."""

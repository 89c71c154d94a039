"""Plans: how much of a model's cache fits into its memory, and what a trace finds there."""

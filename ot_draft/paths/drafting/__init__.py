"""Drafting of trees: from a model, by shapes that are fixed or follow the draft, at a given number of nodes."""

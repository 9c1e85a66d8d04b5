"""Properties of a selection rule, tried on problems that Hypothesis draws and shrinks."""

"""Real models for the demo and the figures: SmolLM2-135M-Instruct as target, a two-layer draft of it."""

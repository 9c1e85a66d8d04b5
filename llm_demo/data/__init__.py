"""The stored pairs of laws (p, q) of the embedded models: how they were captured and what they hold."""

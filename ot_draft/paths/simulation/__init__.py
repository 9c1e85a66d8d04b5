"""Block efficiency by simulation, and the wall-clock model."""

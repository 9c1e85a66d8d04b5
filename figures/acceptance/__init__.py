"""Acceptance of every rule against k, on exact, random and real pairs, and under other sampling settings."""

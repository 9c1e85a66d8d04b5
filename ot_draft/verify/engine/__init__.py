"""Does an engine keep its target's law under speculation? A tiny pair is put into it, and its texts are held to enumerated laws."""

__all__ = ["engines", "tiny_pair"]

"""Verifiers: of rules (`rule`), samplers (`sampler`), servers and logs (`server`), engines (`engine`), and test vectors (`vectors`)."""

__all__ = ["engine", "rule", "sampler", "server", "vectors"]

"""Adapters of engines for `ot-draft conform`, one file each; see `verify/engine/adapter.py`."""

__all__ = ["server"]

"""Adapters of engines for `ot-draft conform`, one file each. Their interface is described in `verify/engine/adapter.py`."""

__all__ = ["server"]

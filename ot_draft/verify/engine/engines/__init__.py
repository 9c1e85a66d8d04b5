"""Adapters of engines for `ot-draft conform`, one file each; see `conform/adapter.py`."""

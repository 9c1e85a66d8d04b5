"""Figures: one script each, with `compute` and `draw`; `python -m figures` creates them all."""

import os

# Before numpy is imported: run times are of one thread, and processes (--jobs), not threads, fill the cores.
for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "RAYON_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

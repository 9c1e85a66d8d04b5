"""GBV: greedy multi-path block verification; its claim about one path holds, its several paths could not be read."""

from ot_draft import paths

from ..defendants import AlongPath
from ..record import Form, Work

WORK = Work(
    name="gbv", title="Greedy multi-path block verification (GBV)", paper="Thomas and Pal 2602.16961v1", read="from the abstract only",
    claim="block verification is optimal for one path, off-path probabilities included; lossless for several", cost="not read",
    forms=(
        Form("one path", AlongPath(paths.BlockVerification()), "its claim of optimality is a theorem (Coq)"),
        Form("several paths: the nearest rule of the library", AlongPath(paths.Joint(), (1, 2)), "exact checks, of `Joint`, not of GBV"),
    ),
)  # fmt: skip

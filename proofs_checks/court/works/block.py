"""Block verification: one path, tested as a whole from its end."""

from ot_draft import paths

from ..defendants import AlongPath
from ..record import Form, Work

WORK = Work(
    name="block", title="Block verification", paper="Sun et al. 2403.10444, Algorithm 2", read="paper's algorithm",
    claim="lossless; optimal for one path", cost="two passes over the vocabulary a position",
    forms=(Form("paper", AlongPath(paths.BlockVerification()), "in Coq; that no lossless rule for one path accepts more is in Coq, too"),),
)  # fmt: skip

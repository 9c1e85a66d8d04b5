"""UniVer: tree verification by local transport plans under prefix acceptance probabilities.

The abstract's principle (prefix acceptance probabilities scale the target of each level's local plan) is that of joint selection.
"""

from ot_draft import paths

from ..defendants import AlongPath
from ..record import Form, Work

WORK = Work(
    name="univer", title="UniVer", paper="Weng et al. 2605.04543v1", read="from the abstract only",
    claim="lossless; optimal within its conditional framework", cost="not read",
    forms=(Form("as far as described: `Joint`", AlongPath(paths.Joint(), (1, 2)), "exact checks, of `Joint`"),),
)  # fmt: skip

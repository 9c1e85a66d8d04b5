"""An engine adapter, for ot_draft/integrations/my_engine.py."""

from functools import partial
from types import ModuleType
from typing import Any

from ot_draft.integrations.chains import CHAIN_RULES, along_chains
from ot_draft.integrations.host import check_choice, check_parameters
from ot_draft.trees import PathRule

VARIABLE = "OT_DRAFT_MY_ENGINE"  # what switches the adapter on: the name of a rule


def install(engine: ModuleType, rule: str) -> None:
    """Replace the engine's `verify(p, q, tokens, uniforms)`. Raises UnsupportedHost, NotLossless."""
    check_choice(rule, tuple(CHAIN_RULES), VARIABLE)
    ours = partial(verify, rule=CHAIN_RULES[rule])
    check_parameters(engine, "verify", verify, ("rule",))
    engine.verify = ours  # type: ignore[attr-defined]


def verify(p: Any, q: Any, tokens: Any, uniforms: Any, rule: PathRule) -> Any:
    """Emitted tokens (B, L + 1), -1 beyond, in the engine's own arguments."""
    return along_chains(rule, p, q, tokens, uniforms)

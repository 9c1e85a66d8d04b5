"""Which models a command loads: those that it was told, or, in a clone, the pair that is embedded in the demo."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from .refused import Refused

if TYPE_CHECKING:
    from ..decoding import Pair


def load_models(target: str | None, draft: str | None, *settings: Any, **options: Any) -> Pair:
    """`ot_draft.decoding.load_pair`, where None stands for the embedded model of a clone; Refused where there is no clone."""
    if target is None or draft is None:
        try:
            embedded = importlib.import_module("llm_demo.models.load")
        except ModuleNotFoundError as error:
            if error.name != "llm_demo":
                raise
            raise Refused(
                "give --target and --draft: a directory, a GGUF file or the hub name of two models of one vocabulary "
                "(the embedded pair comes with a clone of the repository: run  python -m ot_draft  in its folder)"
            ) from None
        pair: Pair = embedded.load_pair(target, draft, *settings, **options)
        return pair
    from ..decoding import load_pair

    return load_pair(target, draft, *settings, **options)

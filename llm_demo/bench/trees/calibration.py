"""Calibration on held-out prompts: the layers that each self-draft skips, and a plan for every draft and temperature."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from torch import Tensor

from llm_demo.bench.trees.lookup_rates import counted
from llm_demo.bench.trees.measure import Models
from llm_demo.bench.trees.plans import DraftPlan
from llm_demo.bench.trees.prefixes import PrefixLogits, behind_places
from llm_demo.bench.trees.summary import LOOKUP
from llm_demo.bench.trees.texts import written
from llm_demo.prompts import Prompt
from ot_draft.decoding import CannotDecode, Pair
from ot_draft.decoding.language_model import language_model
from ot_draft.decoding.self_draft import Text, least_missed, without_layers

FEWER = (1, 2, 4, 8)  # numbers of skipped layers
EMBEDDED, EMBEDDED_STATES = "embedded", "embedded states"  # names of the pair's draft: reads tokens, or hidden states
PLACES = 12  # max. number of positions per held-out prompt
SAME = 1e-5  # total variation below which two distributions are equal up to rounding


@dataclass(frozen=True)
class Calibration:
    """layers: skipped layers by name of the draft. plans: by draft, then by temperature."""

    layers: dict[str, list[int]]
    plans: dict[str, dict[str, DraftPlan]]

    @classmethod
    def read(cls, file: Path) -> Calibration:
        """Read a file of `write`."""
        stored = json.loads(file.read_text(encoding="utf-8"))
        plans = {
            draft: {temperature: _plan(plan) for temperature, plan in of_draft.items()}
            for draft, of_draft in stored["plans"].items()
        }
        return cls(stored["layers"], plans)

    def write(self, file: Path) -> None:
        """Write the calibration as JSON."""
        plans = {
            draft: {temperature: asdict(plan) for temperature, plan in of_draft.items()}
            for draft, of_draft in self.plans.items()
        }
        stored = {"layers": self.layers, "plans": plans}
        file.write_text(json.dumps(stored, indent=1) + "\n", encoding="utf-8")

    def at(self, temperature: float) -> dict[str, DraftPlan]:
        """Return the plans of all drafts at one temperature."""
        return {draft: of_draft[str(temperature)] for draft, of_draft in self.plans.items()}


def _plan(stored: Mapping[str, Any]) -> DraftPlan:
    return DraftPlan(
        **{field.name: _as_tuple(stored[field.name]) for field in fields(DraftPlan) if field.name in stored}
    )


def _as_tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def draft_name(fewer: int) -> str:
    """Return the name of the draft that is the target without `fewer` layers."""
    return f"{fewer} layer{'s' * (fewer > 1)} fewer"


def models_of(pair: Pair, layers: Mapping[str, list[int]], n: int) -> Models:
    """Return the embedded draft, the target without layers, and prompt lookup, which has no model."""
    reads = bool(language_model(pair.draft, n).info.reads) if pair.draft is not None else False
    drafts = {EMBEDDED_STATES if reads else EMBEDDED: pair.draft} if pair.draft is not None else {}
    shorter = {name: without_layers(pair.target, missing) for name, missing in layers.items()}
    for name, draft in (drafts | shorter).items():
        _check_is_another(name, draft, pair.target, n)
    return Models(pair.target, drafts | shorter | {LOOKUP: None}, n)


def _check_is_another(name: str, draft: Any, target: Any, n: int) -> None:
    """Raise CannotDecode if the draft has the target's distribution, since every token of it would be accepted."""
    text = [token % n for token in range(1, 9)]
    p, q = (PrefixLogits(model, text, n, target).at([()])[0].double().softmax(-1) for model in (target, draft))
    if float((p - q).abs().sum()) / 2 < SAME:
        raise CannotDecode(f"draft {name!r} has the target's distribution. Use another model or skip other layers.")


def found(
    pair: Pair, held_out: Sequence[Prompt], temperatures: Sequence[float], n: int, drafts: Sequence[str] | None = None
) -> Calibration:
    """Return the calibration on continuations of the held-out prompts by the target. drafts: names of the self-drafts, by default all."""
    wanted = [number for number in FEWER if number < len(pair.target.model.layers)]
    wanted = [number for number in wanted if drafts is None or draft_name(number) in drafts]
    texts = texts_with_places(pair, held_out[::3], 1.0) if wanted else []
    steps = [missing for missing, _ in least_missed(pair.target, texts, max(wanted))] if wanted else []
    layers = {draft_name(number): steps[number - 1] for number in wanted}
    return Calibration(layers, planned(pair, held_out, temperatures, layers, n))


def planned(
    pair: Pair, held_out: Sequence[Prompt], temperatures: Sequence[float], layers: Mapping[str, list[int]], n: int
) -> dict[str, dict[str, DraftPlan]]:
    """Return a plan for every draft with a model, at every temperature.

    Every third prompt is used, except for looked-up tokens, which use all prompts.
    """
    drafts = {name: draft for name, draft in models_of(pair, layers, n).drafts.items() if draft is not None}
    plans: dict[str, dict[str, DraftPlan]] = {name: {} for name in drafts}
    for temperature in temperatures:
        texts = texts_with_places(pair, held_out[1::3], temperature)
        target = logits_at_places(pair.target, texts, n, pair.target)
        looked_up = counted(pair, drafts, held_out, temperature, n)
        for name, draft in drafts.items():
            of_draft = logits_at_places(draft, texts, n, pair.target)
            plans[name][str(temperature)] = DraftPlan.measured(target, of_draft, temperature, looked_up[name])
    return plans


def texts_with_places(pair: Pair, prompts: Sequence[Prompt], temperature: float) -> list[Text]:
    """Return prompts with the target's completions, and every third position of the completions."""
    texts = []
    for prompt, answer in zip(prompts, written(pair, prompts, temperature, first=1000), strict=True):
        places = range(len(prompt.tokens) + 1, len(prompt.tokens) + len(answer) + 1, 3)
        texts.append(([*prompt.tokens, *answer], list(places[:PLACES]) or [len(prompt.tokens)]))
    return texts


def logits_at_places(model: Any, texts: Sequence[Text], n: int, target: Any) -> list[Tensor]:
    """Return the logits (n,) at all positions of all sequences."""
    return [logits for tokens, places in texts for logits in behind_places(model, tokens, places, n, target)]

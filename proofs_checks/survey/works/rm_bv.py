"""RM-BV: several first tokens share one drafted suffix; block verification of the suffix, and the first token is decided last.

The first tokens S are chosen before the suffix is drawn; with the mass that the target has outside S, one of those is the output. Else
the suffix is verified as a block against the mixture of the target's distributions after the first tokens, each with its posterior
weight, and the first token is drawn from its posterior, given the suffix and the token after it. Over the distribution of the suffix the
text is the target's; given the tree it is not. Its notes count 3.0 and 2.6 tokens a round where the second token copies the first in nine
of ten, or is 0 in nine of ten; so do we. The notes were read in a text index that does not name the repository (package gbv_experiments).
"""

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

import ot_draft as otd
from ot_draft import arrays as xp
from ot_draft import trees

from ..record import AlongPath, Form, Work

Path = tuple[int, ...]


def root_last(suffix: int) -> Callable[[Any, Any], dict[Path, Any]]:
    """The distribution of what is emitted, given the drafted suffix, with two first tokens."""

    def rule(model: Any, tree: Any) -> dict[Path, Any]:
        drafted, root = tuple(tree.tokens[:suffix]), model.target(())
        first = xp.top_tokens(model.draft(()), 2).tolist()
        law: dict[Path, Any] = {(y,): mass for y, mass in enumerate(root.tolist()) if mass and y not in first}
        inside = sum(root[a] for a in first)
        if not inside:
            return law
        posterior, mixtures, weights = [{a: root[a] / inside for a in first}], [], [Fraction(1)]
        for i in range(suffix + 1):
            after = posterior[-1]
            mixtures.append(sum(mass * model.target((a, *drafted[:i])) for a, mass in after.items()))
            if i == suffix:
                break
            token, here = drafted[i], mixtures[-1]
            weights.append(min(1, weights[-1] * here[token] / model.draft(drafted[:i])[token]))
            both = {a: mass * model.target((a, *drafted[:i]))[token] for a, mass in after.items()}
            posterior.append({a: mass / here[token] for a, mass in both.items()} if here[token] else after)
        refused: Any = 1
        for i in range(suffix, -1, -1):
            missing = mixtures[i] if i == suffix else weights[i] * mixtures[i] - model.draft(drafted[:i])
            missing = np.maximum(missing, 0 * missing)
            rest = missing.sum()
            passes = weights[i] if i == suffix else rest / (rest + 1 - weights[i]) if rest + 1 - weights[i] else 1
            last = xp.normalise(missing, otherwise=mixtures[i])
            for token, mass in enumerate(last.tolist()):
                for a, weight in posterior[i].items() if mass and refused * passes else ():
                    share = weight * model.target((a, *drafted[:i]))[token] / mixtures[i][token]
                    if share:
                        text = (a, *drafted[:i], token)
                        law[text] = law.get(text, 0) + inside * refused * passes * mass * share
            refused = refused * (1 - passes)
        return law

    return rule


WORK = Work(
    "rm-bv", "RM-BV", "a repository's notes, 7 September 2026", "the notes, in full", "lossless; not always more than a fixed tree",
    "a pass over the vocabulary a first token and position",
    (Form("two first tokens, suffix of two", AlongPath(root_last(2), (2,), 3, trees.TreeShape.chains(1, 3), otd.IID()),
          "exact checks; block verification of the mixture (Coq: block.v), and Bayes"),),
)  # fmt: skip

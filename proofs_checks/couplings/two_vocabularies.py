"""Target and draft with different tokenizers: the optimal coupling of strings, compared with published methods.

Tokens are strings. The draft model samples a text D of its own tokens until it is long enough. A target token y is *drafted* if D begins
with y, so that a text drafts the set of all target tokens that begin it: nested ones. The optimum is optimal transport with membership
cost under that distribution of sets,

    1 + min over H of [ p(H) - P(all target tokens that begin D lie in H) ],

and no rule of one text accepts more. The published methods are rules below it, or drafts of another distribution (Timor et al. 2025):

    SLEM  the target tokenizer reads D, its first token t has a distribution psi; y ~ p is emitted, and t accepted if y = t: sum of p psi;
    SLRS  t is accepted with min(1, p/psi), else y ~ norm((p - psi)+): sum of min(p, psi);
    TLI   no text: q on the strings that are tokens of both, normalised, is the draft law: sum of min(p, q');
    OOV   q' M instead, for a kernel M that does not depend on p (out-of-vocabulary sampling, 2506.03206): sum of min(p, q' M). Here M
          spreads a token evenly over those of the target that begin with it; the published ones come from data.

THE SECOND TOKEN of SLRS, when the first is taken and D goes on being read: its distribution is that of the second token given that the
first is t, which is not the draft model's distribution of a text that begins after t. The tokenizer has looked ahead: `a` was read because
no `ab` came.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations

import numpy as np

from ..checking import check
from ..statement import Statement
from ..transport import transport

__all__ = ["STATEMENTS", "TextCase", "check", "draw_texts", "ways"]

FRESH = "the second token's law as of a text that begins there"
ALPHABET = "ab"
EXTRA = ("aa", "ab", "ba", "bb")
UNNORMALISED, WHOLE_TEXT = "q of the common tokens, not normalised", "every token that begins the text counts twice"
NOT_SPREAD = "drawn by the redistributed law, verified by that before"
Text = str
Law = dict[Text, Fraction]


@dataclass(frozen=True)
class TextCase:
    """Tokens of the target and of the draft, and their distributions by the last letter of the text before ("" at its beginning)."""

    p: dict[str, Law]
    q: dict[str, Law]

    def __str__(self) -> str:
        shown = [", ".join(f"{token} {mass}" for token, mass in law[""].items()) for law in (self.p, self.q)]
        return f"target {shown[0]}; draft {shown[1]}"

    @property
    def size(self) -> tuple[int, ...]:
        """Size for sorting; small cases are easy to read."""
        return len(self.p[""]), len(self.q[""])

    def texts(self, length: int, before: Text = "") -> Law:
        """Return the distribution of the drafted text, truncated to `length` letters."""
        done: Law = {}
        open_texts = {"": Fraction(1)}
        while open_texts:
            text, mass = open_texts.popitem()
            if len(text) >= length:
                done[text[:length]] = done.get(text[:length], Fraction(0)) + mass
                continue
            for token, chance in self.q[(before + text)[-1:]].items():
                open_texts[text + token] = open_texts.get(text + token, Fraction(0)) + mass * chance
        return done

    def read(self, text: Text) -> Text:
        """Return the first token that the target's tokenizer reads: the longest that begins the text."""
        return max((token for token in self.p[""] if text.startswith(token)), key=len)


def draw_texts(seed: int) -> TextCase:
    """Return the case of this number: single letters and up to three pairs of them in each vocabulary."""
    generator = np.random.default_rng([seed, 38])

    def model() -> dict[str, Law]:
        pairs = [*combinations(EXTRA, int(generator.integers(0, 4)))]
        tokens = [*ALPHABET, *pairs[int(generator.integers(len(pairs)))]]
        counts = {
            before: generator.integers(0, 6, len(tokens)) + (np.arange(len(tokens)) < 1) for before in ("", *ALPHABET)
        }
        return {
            before: {token: Fraction(int(c), int(row.sum())) for token, c in zip(tokens, row, strict=True)}
            for before, row in counts.items()
        }

    return TextCase(model(), model())


def first_read(case: TextCase) -> Law:
    """Return psi, the distribution of the first token that the target's tokenizer reads."""
    psi = dict.fromkeys(case.p[""], Fraction(0))
    for text, mass in case.texts(2).items():
        psi[case.read(text)] += mass
    return psi


def common(case: TextCase, normalised: bool = True) -> Law:
    """Return TLI's draft law: q of the tokens of both vocabularies; None if they have no mass."""
    shared = {token: mass for token, mass in case.q[""].items() if token in case.p[""]}
    whole = sum(shared.values(), Fraction(0)) if normalised else Fraction(1)
    return {token: mass / whole for token, mass in shared.items()} if whole else {}


def redistributed(case: TextCase) -> Law:
    """Return the draft law of out-of-vocabulary sampling.

    It is TLI's draft law, with every token's mass spread over the target's tokens that begin with it.
    """
    law: Law = {}
    for token, mass in common(case).items():
        reached = [other for other in case.p[""] if other.startswith(token)]
        law |= {other: law.get(other, Fraction(0)) + mass / len(reached) for other in reached}
    return law


def ways(case: TextCase) -> dict[str, Fraction]:
    """Return the acceptance of the first token by method."""
    p, psi, shared, spread = case.p[""], first_read(case), common(case), redistributed(case)
    best, _ = transport(case.texts(2), p, lambda text, token: text.startswith(token))
    return {
        "optimum of a text": best,
        "SLRS": sum((min(p[token], psi[token]) for token in p), Fraction(0)),
        "SLEM": sum((p[token] * psi[token] for token in p), Fraction(0)),
        "TLI": sum((min(p[token], shared.get(token, Fraction(0))) for token in p), Fraction(0)),
        "OOV": sum((min(p[token], spread.get(token, Fraction(0))) for token in p), Fraction(0)),
    }


def cut(case: TextCase, error: str) -> bool:
    """Return whether the optimum of a text is the least cut, and SLEM <= SLRS <= it."""
    p, texts, found = case.p[""], case.texts(2), ways(case)
    starts = [(frozenset(token for token in p if text.startswith(token)), mass) for text, mass in texts.items()]
    tokens = list(p)
    cuts = []
    for bits in range(1 << len(tokens)):
        inside = {token for i, token in enumerate(tokens) if bits >> i & 1}
        times = 2 if error == WHOLE_TEXT else 1
        held = sum((mass for members, mass in starts if members <= inside), Fraction(0))
        cuts.append(1 + sum((p[token] for token in inside), Fraction(0)) - times * held)
    return min(cuts) == found["optimum of a text"] and found["SLEM"] <= found["SLRS"] <= found["optimum of a text"]


def of_two(case: TextCase, fresh: bool) -> dict[tuple[Text, Text], Fraction]:
    """Return the distribution of the first two tokens that SLRS emits; the second comes from the target if the first is not accepted.

    fresh: the second is verified by the distribution of a text that begins there.
    """
    p, read = case.p, dict[tuple[Text, Text], Fraction]()
    for text, mass in case.texts(4).items():
        pair = (first := case.read(text)), case.read(text[len(first) :])
        read[pair] = read.get(pair, Fraction(0)) + mass
    one = first_read(case)
    law: dict[tuple[Text, Text], Fraction] = {}
    for first, mass in p[""].items():
        taken, rest = min(mass, one[first]), p[first[-1]]
        second = rest
        if taken:
            drawn = {token: read.get((first, token), Fraction(0)) / one[first] for token in rest}
            fresh_case = TextCase(p, case.q | {"": case.q[first[-1]]})
            second = emitted(rest, drawn, first_read(fresh_case) if fresh else drawn)
        law |= {(first, token): taken * second[token] + (mass - taken) * rest[token] for token in rest}
    return law


def target_of_two(case: TextCase) -> dict[tuple[Text, Text], Fraction]:
    """Return the target's own distribution of two tokens."""
    return {(a, b): mass * more for a, mass in case.p[""].items() for b, more in case.p[a[-1]].items()}


def lossless(case: TextCase, error: str) -> bool:
    """Return whether SLRS, with the second token's distribution given the first, keeps the distribution of two tokens, hence of the
    string.
    """
    return of_two(case, fresh=bool(error)) == target_of_two(case)


def intersection(case: TextCase, error: str) -> bool:
    """Return whether speculative sampling with TLI's draft law emits p, and so it does with that distribution redistributed."""
    p, drawn, spread = case.p[""], common(case), redistributed(case)
    if not drawn:
        return True
    laws = {"": [(drawn, drawn), (spread, spread)]}
    laws |= {UNNORMALISED: [(drawn, common(case, normalised=False))], NOT_SPREAD: [(spread, drawn)]}
    return all(emitted(p, by, believed) == p for by, believed in laws[error])


def emitted(p: Law, drawn: Law, believed: Law) -> Law:
    """Return the output distribution of speculative sampling with a draft from one distribution that is verified with another."""
    keep = {token: min(Fraction(1), p.get(token, Fraction(0)) / mass) for token, mass in believed.items() if mass}
    taken = {token: mass * keep.get(token, 1) for token, mass in drawn.items()}
    left = {token: max(mass - believed.get(token, Fraction(0)), Fraction(0)) for token, mass in p.items()}
    whole, refused = sum(left.values(), Fraction(0)), 1 - sum(taken.values(), Fraction(0))
    return {token: taken.get(token, Fraction(0)) + (refused * left[token] / whole if whole else 0) for token in p}


def beats(case: TextCase, error: str) -> bool:
    """Return whether no published method accepts more than the optimum of a drafted text, which is false.

    With common tokens only it is true.
    """
    if error and set(case.q[""]) - set(case.p[""]):
        return True
    found = ways(case)
    return found["TLI"] <= found["optimum of a text"]


METHOD = "Fractions, all drafted texts enumerated"
STATEMENTS = (
    Statement(
        "two vocabularies: the optimum of a text",
        "The optimum of a drafted string and a target token is a minimum cut over token sets; SLEM <= SLRS <= optimum.",
        "this project; ways: Timor et al. 2025",
        METHOD + "; a transport proved by prices",
        cut,
        (WHOLE_TEXT,),
        draw=draw_texts,
        limit=200,
    ),
    Statement(
        "two vocabularies: two tokens of one text",
        "SLRS keeps the distribution of the string, if it uses the distribution of the second read token given the first.",
        "Timor et al. 2025; the condition: this project",
        METHOD + ", both tokens",
        lossless,
        (FRESH,),
        draw=draw_texts,
        limit=200,
    ),
    Statement(
        "two vocabularies: the intersection",
        "Drafting from q on the common tokens, normalised, keeps p; so does this distribution times a kernel "
        "(out-of-vocabulary sampling).",
        "Timor et al. 2025 (TLI; 2506.03206)",
        "Fractions",
        intersection,
        (UNNORMALISED, NOT_SPREAD),
        draw=draw_texts,
        limit=200,
    ),
    Statement(
        "two vocabularies: a text against the intersection",
        "The optimum of a drafted string is at least the acceptance of the intersection.",
        "plausible",
        METHOD,
        beats,
        ("where every draft token is one of the target's",),
        expected="refuted",
        draw=draw_texts,
        limit=200,
    ),
)


def means(cases: int = 200) -> dict[str, float]:
    """Return the mean acceptance of the first token by method, over `count` cases."""
    found = [ways(draw_texts(seed)) for seed in range(cases)]
    return {way: float(sum(each[way] for each in found) / cases) for way in found[0]}


if __name__ == "__main__":
    for name, mean in means().items():
        print(f"{name}: {mean:.3f}")

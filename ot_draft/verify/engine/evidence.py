"""p-values of an engine's completions under the distribution that they should have.

Each is about N completions of one kind of request, or of one group of requests. They are valid for every N, except those of means,
which are normal approximations for at least 300 numbers.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import erfc, log
from numbers import Integral

import numpy as np

from ...arrays import Array
from .. import e_values
from ..e_values import MISS, log_bet, log_dirichlet_mixture, smallest_distance
from .kinds import DEPTH, TOKENS, Kind, ReferencePair, Text

PARTS = 8  # cells of the unit interval
CONCENTRATIONS = 4.0 ** np.arange(10)  # of the alternatives in `log_dirichlet_mixture`, in counts


@dataclass(frozen=True)
class PValue:
    """A p-value of completions, multiplied by the number of views.

    Attributes
    ----------
    p : float
        The p-value.
    reason : str
        The view with the smallest p-value, or the error.
    enough : bool
        Whether there are enough completions for a decision.
    views : int
        Number of views.
    min_tokens : int
        Number of tokens at the position, after the first one, with the fewest.
    one_text : bool
        Whether the distribution has one completion only.
    """

    p: float
    reason: str
    enough: bool = True
    views: int = 1
    min_tokens: int = 0
    one_text: bool = False

    def detectable_bias(self, level: float) -> float:
        """Return the total variation distance, of every token after the first, that is missed with probability MISS.

        At the resolution of eighths of the distribution in the order of q / p, along which an error of a verifier moves probability; 1 if
        none is detected. If the distribution has one completion: the share of other ones.
        """
        if self.one_text:  # every other completion is proof
            return float(1 - MISS ** (1 / max(self.min_tokens, 1)))
        # of the distribution at one of the positions
        distance = smallest_distance(self.min_tokens, PARTS, level / self.views, DEPTH, CONCENTRATIONS)
        return distance if distance == 1 else float(distance / (DEPTH - 1) ** 0.5)


def p_value(
    kind: Kind, texts: Sequence[Sequence[int]], reference: ReferencePair, generator: np.random.Generator
) -> PValue:
    """Return the smallest p-value of all views, times their number; 0 for a completion of probability 0."""
    if wrong := malformed(kind, texts, reference.n):
        return PValue(0.0, wrong)
    found = [tuple(text)[:DEPTH] for text in texts]
    law = reference.enumerated(kind) if reference.n < 100 else {}
    if law and (outside := [text for text in found if text not in law]):
        return PValue(0.0, f"{len(outside)} of {len(found)} completions have probability 0, such as {list(outside[0])}")
    ranks = uniform_ranks(kind, found, reference, generator)
    if ranks is None:
        return PValue(0.0, "a token has probability 0")
    views = by_enumeration(law, found) | by_ranks(*ranks, generator)
    if {"top_k", "top_p", "min_p"} & kind.settings.keys() and not law:
        # Tokens that are removed by mistake are the least probable ones, at any position in the order of q / p.
        by_mass = uniform_ranks(kind, found, reference, generator, by_mass=True)
        assert by_mass is not None  # as without the order by mass
        views |= {f"{name}, by mass": p for name, p in by_ranks(*by_mass, generator).items()}
    name = min(views, key=lambda each: views[each])
    p, one_text = min(1.0, len(views) * views[name]), kind.temperature == 0
    return PValue(p, name, _enough(ranks[0]), len(views), _min_tokens(ranks[0]), one_text)


def _enough(ranks: Array, min_texts: int = 20) -> bool:
    return bool((~np.isnan(ranks)).any(-1).sum() >= min_texts)


def _min_tokens(ranks: Array) -> int:
    """The number of tokens at the position with the fewest; the first one is not drafted, and does not count."""
    return int((~np.isnan(ranks[:, 1:])).sum(0).min())


def malformed(kind: Kind, texts: Sequence[Sequence[int]], n: int) -> str:
    """Return an error in the lengths, the ends or the ids of completions, "" if there is none."""
    ends = kind.ends(n)
    for error, wrong in (
        ("have unknown tokens", lambda text: not all(isinstance(y, Integral) and y in range(n) for y in text)),
        ("stop early", lambda text: len(text) < TOKENS and not ends & {*text[-1:]}),
        ("continue after their end", lambda text: len(text) > TOKENS or ends & {*text[:-1]}),
    ):
        if found := [text for text in texts if wrong(text)]:
            return f"{len(found)} of {len(texts)} completions {error}, such as {list(found[0])}"
    return ""


def p_value_of_groups(
    sent: Sequence[tuple[str, Text, set[str]]], kinds: Mapping[str, Kind], reference: ReferencePair,
    generator: np.random.Generator,
) -> PValue:  # fmt: skip
    """Return the p-value of completions of many kinds, for every kind and for every group of requests, such as a position in a batch.

    sent: kind, completion and groups of each. In a group, every completion counts under the distribution of its own kind.
    """
    sent, texts = sorted(sent, key=lambda each: each[0]), defaultdict[str, list[Text]](list)
    for name, text, _ in sent:
        texts[name].append(text)
    found, enough, min_tokens = list[tuple[float, str]](), True, len(sent)
    for each, own in texts.items():
        evidence = p_value(kinds[each], own, reference, generator)
        found.append((evidence.p, f"{each}: {evidence.reason}"))
        if evidence.p == 0:
            return PValue(*found[-1])
    for by_mass in (False, True):
        parts = [uniform_ranks(kinds[each], own, reference, generator, by_mass) for each, own in texts.items()]
        ranks, randomness = (np.concatenate(each) for each in zip(*filter(None, parts), strict=True))
        for group in sorted(set[str]().union(*(groups for _, _, groups in sent))):
            rows = [row for row, (_, _, groups) in enumerate(sent) if group in groups]
            enough, min_tokens = enough and _enough(ranks[rows]), min(min_tokens, _min_tokens(ranks[rows]))
            found += [(p, f"{group}: {view}") for view, p in by_ranks(ranks[rows], randomness[rows], generator).items()]
    p, reason = min(found)
    return PValue(min(1.0, len(found) * p), reason, enough, len(found), min_tokens)


def by_enumeration(law: dict[Text, float], texts: list[Text]) -> dict[str, float]:
    """Return p-values of whole completions, of neighbouring tokens and of single positions."""
    views = {"completions": slice(0, DEPTH)}
    views |= {f"positions {i + 1} and {i + 2}": slice(i, i + 2) for i in range(DEPTH - 1)}
    views |= {f"position {i + 1}": slice(i, i + 1) for i in range(DEPTH)}
    found = {name: _cells(law, texts, view) for name, view in views.items()}
    return {name: p for name, p in found.items() if p is not None}


def _cells(law: dict[Text, float], texts: list[Text], view: slice, min_expected: float = 10) -> float | None:
    """Return the p-value of a part of the completions, rare cells pooled; None if there is one cell only."""
    counts, masses = Counter(text[view] for text in texts), Counter[Text]()
    for text, mass in law.items():
        masses[text[view]] += mass  # type: ignore[assignment]  # a Counter of floats
    cells, observed, expected = [], 0, 0.0
    for part, mass in masses.most_common():
        observed, expected = observed + counts[part], expected + mass * len(texts)
        if expected >= min_expected:
            cells.append((observed, expected))
            observed, expected = 0, 0.0
    if cells:
        cells[-1] = (cells[-1][0] + observed, cells[-1][1] + expected)
    if len(cells) < 2:
        return None
    counts, wanted = np.array(cells).T
    return by_counts(counts, wanted / len(texts))


def uniform_ranks(
    kind: Kind,
    texts: Sequence[Text],
    reference: ReferencePair,
    generator: np.random.Generator,
    by_mass: bool = False,
    batch: int = 512,
) -> tuple[Array, Array] | None:
    """Return positions of the tokens in the unit interval, divided into their distribution given the tokens before.

    They are uniform and independent if the distribution is right. Tokens are in the order of q / p, since an error of a verifier moves
    probability along it; by_mass: in the order of p, in which completions of another request and tokens that are removed by mistake come
    first. None if a token has probability 0.

    Returns
    -------
    ranks : array of shape (N, DEPTH)
        In [0, 1); NaN without a token.
    randomness : array of shape (N, DEPTH)
        1 minus the largest probability; 0 if the distribution has one token only.
    """
    ranks, randomness = np.full((len(texts), DEPTH), np.nan), np.zeros((len(texts), DEPTH))
    padded = np.array([[*text[:DEPTH], *[0] * (DEPTH - len(text))] for text in texts], dtype=np.int64).reshape(
        -1, DEPTH
    )
    there = np.arange(DEPTH) < np.array([len(text) for text in texts])[:, None]
    for start in range(0, len(texts), batch):
        rows = slice(start, start + batch)
        p, q, sure = reference.laws(kind, padded[rows])
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.where(p > 0, (0 if by_mass else np.log(q)) - np.log(p), np.inf)
        own = np.take_along_axis(p, padded[rows][..., None], -1)[..., 0]
        use = there[rows] & sure
        if (use & (own <= 0)).any():
            return None
        at = np.take_along_axis(ratio, padded[rows][..., None], -1)
        before, equal = np.where(ratio < at, p, 0).sum(-1), np.where(ratio == at, p, 0).sum(-1)
        ranks[rows] = np.where(use, before + generator.random(own.shape) * equal, np.nan)
        randomness[rows] = np.where(use, 1 - p.max(-1), 0)
    return ranks, randomness


def by_ranks(ranks: Array, randomness: Array, generator: np.random.Generator, min_mean: int = 300) -> dict[str, float]:
    """Return p-values of ranks: of their mean after the first token, which is not drafted; of cells; of neighbours."""
    views = {}
    drafted = ranks[:, 1:][randomness[:, 1:] > 0]
    if len(drafted) >= min_mean:
        views["towards the draft"] = erfc(abs(drafted.mean() - 0.5) * (12 * len(drafted)) ** 0.5 / 2**0.5)
    columns = [column[~np.isnan(column)] for column in ranks.T]
    counts = np.stack([np.histogram(column, PARTS, (0, 1))[0] for column in columns])
    views["ranks by position"] = by_counts(counts, np.full(PARTS, 1 / PARTS))
    views["ranks"] = by_counts(counts.sum(0), np.full(PARTS, 1 / PARTS))
    for i in range(DEPTH - 1):
        both = ranks[:, i : i + 2][~np.isnan(ranks[:, i])]
        # Whether there is a second token depends on the first: without random numbers, the remaining ones would not be uniform.
        both = np.where(np.isnan(both), generator.random(both.shape), both)
        first, second = (4 * both).astype(int).clip(max=3).T
        cells = np.bincount(4 * first + second, minlength=16)
        views[f"neighbours {i + 1} and {i + 2}"] = by_counts(cells, np.full(16, 1 / 16))
    return views


def p_value_of_pairs(
    kind: Kind, texts: list[Text], reference: ReferencePair, generator: np.random.Generator, min_mean: int = 300
) -> tuple[float, str]:
    """Return the p-value of the independence of two requests of one batch, and its reason.

    It tests how often their tokens are equal, and how their ranks correlate: a shared uniform number accepts everywhere, or nowhere.
    texts: neighbours in the order of sending are the pairs.
    """
    p, reason = _equal(kind, texts, reference)
    found = uniform_ranks(kind, texts, reference, generator)
    if found is not None:
        even = found[0][: len(texts) // 2 * 2].reshape(-1, 2, DEPTH) - 0.5
        products = (even[:, 0] * even[:, 1])[~np.isnan(even).any(1)]
        if len(products) >= min_mean:
            deviation = 12 * abs(products.sum()) / len(products) ** 0.5
            if (other := erfc(deviation / 2**0.5)) < p:
                p = other
                reason = f"ranks of {len(products)} neighbouring tokens: {deviation:.1f} standard deviations"
    return min(1.0, 2 * p), reason


def _equal(kind: Kind, texts: list[Text], reference: ReferencePair, batch: int = 512) -> tuple[float, str]:
    equal, expected = [], []
    pairs = [(a[:DEPTH], b[:DEPTH]) for a, b in zip(texts[::2], texts[1::2], strict=False)]
    for start in range(0, len(pairs), batch):
        some = pairs[start : start + batch]
        padded = np.array([[(*text, *[0] * (DEPTH - len(text))) for text in pair] for pair in some], dtype=np.int64)
        there = np.array([np.arange(DEPTH) < min(map(len, pair)) for pair in some])
        laws = [reference.laws(kind, padded[:, side])[0] for side in range(2)]
        expected.append((laws[0] * laws[1]).sum(-1)[there])
        equal.append((padded[:, 0] == padded[:, 1])[there])
    if not equal:
        return 1.0, "no neighbours"
    same, p = np.concatenate(equal), np.concatenate(expected)
    return by_bets(same, p), f"{same.sum()} of {len(same)} neighbouring tokens equal, {p.sum():.0f} expected"


def by_bets(happened: Array, p: Array) -> float:
    """Return the p-value of events, each with its probability given those before, by bets on more and on fewer of them."""
    sizes = np.geomspace(0.01, 3, 12)
    stakes = np.expm1(np.concatenate((sizes, -sizes)))[:, None]
    logs = log_bet(happened, p, stakes).sum(-1)
    return e_values.p_value(float(np.logaddexp.reduce(logs) - log(len(logs))))


def by_counts(counts: Array, masses: Array) -> float:
    """Return the p-value of counts (k,), or (m, k) of m tables, of k cells. Near that of chi-square if all counts are large."""
    return e_values.p_value(float(log_dirichlet_mixture(np.atleast_2d(counts), masses, CONCENTRATIONS)))

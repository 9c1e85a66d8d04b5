"""p-values of an engine's texts under the law that they should follow: small where the law is another.

Each is about N texts of one kind of request, or of one group of requests. All hold at every size, or are of means of at least 300 numbers.
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

LEAST = 10  # expected in a cell: rarer texts are counted together
FEWEST = 20  # texts: of fewer it is not said that they keep a law
STRENGTHS = 4.0 ** np.arange(10)  # of the alternatives' beliefs in the law, in draws
PARTS = 8  # of the unit interval
CUTTING = {"top_k", "top_p", "min_p"}  # settings that cut the lightest tokens off
BATCH = 512  # texts of a large vocabulary whose laws are held at a time


@dataclass(frozen=True)
class PValue:
    """A p-value of texts, already times the number of views, and what it is. enough: whether they are texts to judge a law by.

    least: texts with a token at the place behind the first where they are fewest; sure: whether the law has one text alone.
    """

    p: float
    said: str
    enough: bool = True
    views: int = 1
    least: int = 0
    sure: bool = False

    def detectable_bias(self, level: float) -> float:
        """By how much, in total variation, the law of every token behind the first must be off to be seen at the level but by MISS.

        In so far as the eighths of the law in the order of q / p show it, along which an error of a verifier moves mass; 1 if none. Of a
        law that has one text: the share of other texts.
        """
        if self.sure:  # any other text is proof
            return float(1 - MISS ** (1 / max(self.least, 1)))
        far = smallest_distance(
            self.least, PARTS, level / self.views, DEPTH, STRENGTHS
        )  # of the law at one of the places
        return far if far == 1 else float(far / (DEPTH - 1) ** 0.5)


def p_value(
    kind: Kind, texts: Sequence[Sequence[int]], reference: ReferencePair, generator: np.random.Generator
) -> PValue:
    """The smallest of all views, times their number, 0 for a text that the law does not have."""
    if wrong := malformed(kind, texts, reference.n):
        return PValue(0.0, wrong)
    found = [tuple(text)[:DEPTH] for text in texts]
    law = reference.enumerated(kind) if reference.n < 100 else {}
    if law and (outside := [text for text in found if text not in law]):
        return PValue(0.0, f"{len(outside)} of {len(found)} texts of mass 0, as {list(outside[0])}")
    places = uniform_places(kind, found, reference, generator)
    if places is None:
        return PValue(0.0, "a token of mass 0")
    views = by_enumeration(law, found) | by_places(*places, generator)
    if CUTTING & kind.settings.keys() and not law:
        # What is cut off too many are the lightest tokens, wherever they stand in the order of q / p.
        by_mass = uniform_places(kind, found, reference, generator, by_mass=True)
        assert by_mass is not None  # as without the order by mass
        views |= {f"{name}, by mass": p for name, p in by_places(*by_mass, generator).items()}
    name = min(views, key=lambda each: views[each])
    p, sure = min(1.0, len(views) * views[name]), kind.temperature == 0
    return PValue(p, name, _enough(places[0]), len(views), _least(places[0]), sure)


def _enough(places: Array) -> bool:
    return bool((~np.isnan(places)).any(-1).sum() >= FEWEST)


def _least(places: Array) -> int:
    """Texts with a token at the place where they are fewest; the first token is not drafted, and not asked for."""
    return int((~np.isnan(places[:, 1:])).sum(0).min())


def malformed(kind: Kind, texts: Sequence[Sequence[int]], n: int) -> str:
    """A sentence on what is wrong with texts before any law is asked: their lengths, their ends or tokens that are none."""
    ends = kind.ends(n)
    for said, wrong in (
        (
            "have tokens that there are not",
            lambda text: not all(isinstance(y, Integral) and y in range(n) for y in text),
        ),
        ("stop early", lambda text: len(text) < TOKENS and not ends & {*text[-1:]}),
        ("go on", lambda text: len(text) > TOKENS or ends & {*text[:-1]}),
    ):
        if found := [text for text in texts if wrong(text)]:
            return f"{len(found)} of {len(texts)} texts {said}, as {list(found[0])}"
    return ""


def apart(
    sent: Sequence[tuple[str, Text, set[str]]], kinds: Mapping[str, Kind], reference: ReferencePair,
    generator: np.random.Generator,
) -> PValue:  # fmt: skip
    """`p_value` of texts of many kinds, for every kind by itself and for every group of requests: what is wrong at one place only.

    sent: kind, text and groups of each. In a group every text counts under the law of its own kind.
    """
    sent, texts = sorted(sent, key=lambda each: each[0]), defaultdict[str, list[Text]](list)
    for name, text, _ in sent:
        texts[name].append(text)
    found, enough, least = list[tuple[float, str]](), True, len(sent)
    for each, own in texts.items():
        evidence = p_value(kinds[each], own, reference, generator)
        found.append((evidence.p, f"{each}: {evidence.said}"))
        if evidence.p == 0:
            return PValue(*found[-1])
    for by_mass in (False, True):
        parts = [uniform_places(kinds[each], own, reference, generator, by_mass) for each, own in texts.items()]
        places, open_ = (np.concatenate(each) for each in zip(*filter(None, parts), strict=True))
        for group in sorted(set[str]().union(*(groups for _, _, groups in sent))):
            rows = [row for row, (_, _, groups) in enumerate(sent) if group in groups]
            enough, least = enough and _enough(places[rows]), min(least, _least(places[rows]))
            found += [(p, f"{group}: {view}") for view, p in by_places(places[rows], open_[rows], generator).items()]
    p, said = min(found)
    return PValue(min(1.0, len(found) * p), said, enough, len(found), least)


def by_enumeration(law: dict[Text, float], texts: list[Text]) -> dict[str, float]:
    """p-values of whole texts, of neighbouring tokens and of single places."""
    views = {"texts": slice(0, DEPTH)}
    views |= {f"places {i + 1} and {i + 2}": slice(i, i + 2) for i in range(DEPTH - 1)}
    views |= {f"place {i + 1}": slice(i, i + 1) for i in range(DEPTH)}
    found = {name: _cells(law, texts, view) for name, view in views.items()}
    return {name: p for name, p in found.items() if p is not None}


def _cells(law: dict[Text, float], texts: list[Text], view: slice) -> float | None:
    """Of a part of the texts, small cells taken together; None where there is one cell only."""
    counts, masses = Counter(text[view] for text in texts), Counter[Text]()
    for text, mass in law.items():
        masses[text[view]] += mass  # type: ignore[assignment]  # a Counter of floats
    cells, observed, expected = [], 0, 0.0
    for part, mass in masses.most_common():
        observed, expected = observed + counts[part], expected + mass * len(texts)
        if expected >= LEAST:
            cells.append((observed, expected))
            observed, expected = 0, 0.0
    if cells:
        cells[-1] = (cells[-1][0] + observed, cells[-1][1] + expected)
    if len(cells) < 2:
        return None
    counts, wanted = np.array(cells).T
    return by_counts(counts, wanted / len(texts))


def uniform_places(
    kind: Kind, texts: Sequence[Text], reference: ReferencePair, generator: np.random.Generator, by_mass: bool = False
) -> tuple[Array, Array] | None:
    """Places of the tokens in their laws given the text before: uniform on [0, 1) and independent, if the law is right.

    Tokens are in the order of q / p, since an error of a verifier moves mass along it; by_mass: in the order of p, since texts of
    another request are rare in the law, whatever the kind, and what is cut off too many is so, too. (N, DEPTH) twice: the places, NaN
    where there is none, and how far from random each was, 0 where the law has one token only. None where a token has mass 0.
    """
    places, open_ = np.full((len(texts), DEPTH), np.nan), np.zeros((len(texts), DEPTH))
    padded = np.array([[*text[:DEPTH], *[0] * (DEPTH - len(text))] for text in texts], dtype=np.int64).reshape(
        -1, DEPTH
    )
    there = np.arange(DEPTH) < np.array([len(text) for text in texts])[:, None]
    for start in range(0, len(texts), BATCH):
        rows = slice(start, start + BATCH)
        p, q, sure = reference.laws(kind, padded[rows])
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.where(p > 0, (0 if by_mass else np.log(q)) - np.log(p), np.inf)
        own = np.take_along_axis(p, padded[rows][..., None], -1)[..., 0]
        use = there[rows] & sure
        if (use & (own <= 0)).any():
            return None
        at = np.take_along_axis(ratio, padded[rows][..., None], -1)
        before, equal = np.where(ratio < at, p, 0).sum(-1), np.where(ratio == at, p, 0).sum(-1)
        places[rows] = np.where(use, before + generator.random(own.shape) * equal, np.nan)
        open_[rows] = np.where(use, 1 - p.max(-1), 0)
    return places, open_


def by_places(places: Array, open_: Array, generator: np.random.Generator) -> dict[str, float]:
    """p-values of the mean of all places behind the first token, which is not drafted; of places in cells; of neighbouring ones."""
    views = {}
    drafted = places[:, 1:][open_[:, 1:] > 0]
    if len(drafted) >= 300:
        views["towards the draft"] = erfc(abs(drafted.mean() - 0.5) * (12 * len(drafted)) ** 0.5 / 2**0.5)
    columns = [column[~np.isnan(column)] for column in places.T]
    counts = np.stack([np.histogram(column, PARTS, (0, 1))[0] for column in columns])
    views["places in the law"] = by_counts(counts, np.full(PARTS, 1 / PARTS))
    views["tokens in the law"] = by_counts(counts.sum(0), np.full(PARTS, 1 / PARTS))
    for i in range(DEPTH - 1):
        both = places[:, i : i + 2][~np.isnan(places[:, i])]
        # Whether there is a second place depends on the first token: without it that would not be uniform among those that are left.
        both = np.where(np.isnan(both), generator.random(both.shape), both)
        first, second = (4 * both).astype(int).clip(max=3).T
        cells = np.bincount(4 * first + second, minlength=16)
        views[f"neighbours {i + 1} and {i + 2}"] = by_counts(cells, np.full(16, 1 / 16))
    return views


def together(
    kind: Kind, texts: list[Text], reference: ReferencePair, generator: np.random.Generator
) -> tuple[float, str]:
    """p-value of what two requests of one batch have in common, given what each wrote before: by numbers that they share.

    How often their tokens are equal, and how their places in the law go together: one number for all accepts everywhere, or nowhere.
    texts: neighbours in the order in which they were sent are the pairs.
    """
    p, said = _equal(kind, texts, reference)
    found = uniform_places(kind, texts, reference, generator)
    if found is not None:
        even = found[0][: len(texts) // 2 * 2].reshape(-1, 2, DEPTH) - 0.5
        products = (even[:, 0] * even[:, 1])[~np.isnan(even).any(1)]
        if len(products) >= 300:
            deviation = 12 * abs(products.sum()) / len(products) ** 0.5
            if (other := erfc(deviation / 2**0.5)) < p:
                p, said = (
                    other,
                    f"places in the law of {len(products)} neighbouring tokens: {deviation:.1f} standard deviations",
                )
    return min(1.0, 2 * p), said


def _equal(kind: Kind, texts: list[Text], reference: ReferencePair) -> tuple[float, str]:
    equal, chances = [], []
    pairs = [(a[:DEPTH], b[:DEPTH]) for a, b in zip(texts[::2], texts[1::2], strict=False)]
    for start in range(0, len(pairs), BATCH):
        some = pairs[start : start + BATCH]
        padded = np.array([[(*text, *[0] * (DEPTH - len(text))) for text in pair] for pair in some], dtype=np.int64)
        there = np.array([np.arange(DEPTH) < min(map(len, pair)) for pair in some])
        laws = [reference.laws(kind, padded[:, side])[0] for side in range(2)]
        chances.append((laws[0] * laws[1]).sum(-1)[there])
        equal.append((padded[:, 0] == padded[:, 1])[there])
    if not equal:
        return 1.0, "no neighbours"
    same, chance = np.concatenate(equal), np.concatenate(chances)
    return by_bets(same, chance), f"{same.sum()} of {len(same)} neighbouring tokens equal, {chance.sum():.0f} expected"


def by_bets(happened: Array, chance: Array) -> float:
    """p-value of events, each with its probability given those before: one over the wealth of bets on more and on fewer of them."""
    sizes = np.geomspace(0.01, 3, 12)
    stakes = np.expm1(np.concatenate((sizes, -sizes)))[:, None]
    logs = log_bet(happened, chance, stakes).sum(-1)
    return e_values.p_value(float(np.logaddexp.reduce(logs) - log(len(logs))))


def by_counts(counts: Array, masses: Array) -> float:
    """p-value of how often each of k masses was drawn: counts (k,), or (m, k) of m tables. Near chi-square where all cells are full."""
    return e_values.p_value(float(log_dirichlet_mixture(np.atleast_2d(counts), masses, STRENGTHS)))

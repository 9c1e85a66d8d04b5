"""A target and a draft over a few words, for pictures: the next word follows from the last one."""

from __future__ import annotations

from typing import Any

import numpy as np

import ot_draft as ot

# Words that may follow a word, with their counts; the draft knows them worse.
FOLLOWERS = """: the 6 a 3 my 1|the: old 3 cat 4 dog 3|a: cat 5 dog 3 old 2|my: dog 7 cat 2 old 1|old: dog 5 cat 4 oak 1|
cat: sat 5 ran 3 slept 2|dog: ran 6 sat 3 slept 1|oak: fell 8 slept 2|sat: down 6 here 4|ran: away 6 here 3 home 1|
slept: here 5 in 5|fell: down 9 here 1"""


def models() -> tuple[list[str], ot.paths.MarkovModel]:
    """The words, and target and draft as Markov models of order 1."""
    lines = [entry.strip().split(":") for entry in FOLLOWERS.split("|")]
    words = sorted({word for _, line in lines for word in line.split()[::2]})
    targets: dict[tuple[int, ...], Any] = {}
    drafts: dict[tuple[int, ...], Any] = {}
    for before, line in lines:
        counts = dict(zip(line.split()[::2], map(int, line.split()[1::2]), strict=True))
        target = np.array([counts.get(word, 0) for word in words], dtype=float)
        context = (words.index(before),) if before else ()
        targets[context] = target / target.sum()
        drafts[context] = 0.25 * targets[context] + 0.75 * (target > 0) / (target > 0).sum()
    for number in range(len(words)):  # words that end a sentence
        targets.setdefault((number,), np.eye(len(words))[number])
        drafts.setdefault((number,), np.eye(len(words))[number])
    return words, ot.paths.MarkovModel(targets, drafts, 1)

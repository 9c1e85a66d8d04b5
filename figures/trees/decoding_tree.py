"""One decoding iteration as a tree: draft paths and accepted, rejected and recovered tokens, by token-wise and joint selection."""

from __future__ import annotations

from typing import Any

import numpy as np

import ot_draft as otd
from figures import style
from figures.about import About, Number

K, L, SEED = 5, 4, 59
# Possible next words after each word, with their counts; the draft model has less accurate counts.
FOLLOWERS = """: the 6 a 3 my 1|the: old 3 cat 4 dog 3|a: cat 5 dog 3 old 2|my: dog 7 cat 2 old 1|old: dog 5 cat 4 oak 1|
cat: sat 5 ran 3 slept 2|dog: ran 6 sat 3 slept 1|oak: fell 8 slept 2|sat: down 6 here 4|ran: away 6 here 3 home 1|
slept: here 5 in 5|fell: down 9 here 1"""
ABOUT = About(
    title="One decoding iteration",
    claim="Token-wise selection drops a path at its first rejection. Joint selection reads a whole path first, and may keep more "
    "of it.",
    source="this project; SpecTr for token-wise selection",
)
RULES: tuple[otd.trees.PathRule, ...] = (otd.trees.TokenWise(otd.rules.KSeq()), otd.trees.Joint())
ACCEPTED, REFUSED, DROPPED, EXTRA = "accepted", "rejected", "after a rejection", "recovered or bonus token"
COLOURS = {ACCEPTED: "#009E73", REFUSED: "#D55E00", DROPPED: "#A0A0A0", EXTRA: "#0072B2"}
CAPTION = f"""One iteration with K = {K} draft paths of length L = {L}, the same paths for two rules; the models sample the next of {{n}}
words given the last one. Common prefixes are drawn once, with the number of paths that share them. Under each word are p and
q, its probability under target and draft. Green: accepted by the rule. Orange: next to the accepted path, and rejected.
Grey: drafted after a rejected word, dropped. Blue: the token after the accepted ones, sampled from the residual
distribution, or from the target at the end of a path. Joint selection rejects nothing before it has read a whole path. One
seed, chosen to show a difference."""


def compute(full: bool = False, jobs: int = 1, seed: int = SEED) -> list[dict[str, Any]]:
    """Return a row per rule and node of the merged tree: words from the root, number of paths, p, q, state."""
    words, model = word_models()
    generator = np.random.default_rng(seed)
    shape = otd.trees.TreeShape.chains(K, L)
    tree = otd.trees.drafting.draft_trees(otd.trees.FixedTree(shape), model, [()], generator.random((1, shape.size)))
    uniforms = generator.random((1, max(rule.n_uniforms(shape) for rule in RULES)))
    rows: list[dict[str, Any]] = []
    for rule in RULES:
        selected = rule.select(tree, uniforms[:, : rule.n_uniforms(shape)])
        emitted = [int(token) for token in selected.tokens[0] if token >= 0]
        nodes: dict[tuple[int, ...], int] = {}
        for node in range(1, shape.size + 1):
            way = tuple(int(tree.tokens[0, above - 1]) for above in shape.path(node))
            nodes[way] = nodes.get(way, 0) + 1
        for way, paths in nodes.items():
            rows.append(_row(rule, words, model, way, paths, _state(way, emitted)))
        rows.append(_row(rule, words, model, tuple(emitted), 0, EXTRA))
    return rows


def word_models() -> tuple[list[str], otd.trees.MarkovModel]:
    """Return a few words, and a target and a draft over them: the distribution of the next word depends on the last one."""
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
    return words, otd.trees.MarkovModel(targets, drafts, 1)


def _state(way: tuple[int, ...], emitted: list[int]) -> str:
    if list(way) == emitted[:-1][: len(way)]:
        return ACCEPTED
    return REFUSED if list(way[:-1]) == emitted[:-1][: len(way) - 1] else DROPPED


def _row(rule: Any, words: list[str], model: Any, way: tuple[int, ...], paths: int, state: str) -> dict[str, Any]:
    p, q = (laws(way[:-1])[way[-1]] for laws in (model.target, model.draft))
    text = " ".join(words[token] for token in way)
    return {"rule": rule.name, "words": text, "paths": paths, "p": round(p, 4), "q": round(q, 4), "state": state}


def numbers(rows: style.Rows) -> list[Number]:
    """Return the number of accepted tokens in the drawn iteration."""
    accepted = {row["rule"]: 0 for row in rows}
    for row in rows:
        accepted[row["rule"]] += row["state"] == ACCEPTED
    return [Number(f"accepted in this iteration: {rule}", number) for rule, number in accepted.items()]


def draw(rows: style.Rows) -> Any:
    """Draw a panel per rule, with time from left to right."""
    figure, panels = style.canvas(2, CAPTION.format(n=len(word_models()[0])), least=5.5)
    for axes, rule_rows in zip(panels, style.split(rows, "rule"), strict=True):
        places = _places([row["words"] for row in rule_rows if row["state"] != EXTRA])
        for row in rule_rows:
            _draw_node(axes, row, places)
        axes.plot([0], [0.5], "o", color="#000000", ms=7)
        accepted = sum(row["state"] == ACCEPTED for row in rule_rows)
        name = "token by token, K-SEQ" if "KSeq" in rule_rows[0]["rule"] else "joint selection"
        title = f"{name}: {accepted} accepted, {accepted + 1} tokens in one call"
        axes.set(title=title, xlim=(-0.2, L + 1.4), ylim=(-0.12, 0.98))
        axes.axis("off")
    for place, (state, colour) in enumerate(COLOURS.items()):
        panels[0].text(-0.15 + 1.15 * place, -0.1, state, color=colour, fontsize=8.5)
    return figure


def _draw_node(axes: Any, row: dict[str, str], places: dict[str, float]) -> None:
    *before, word = row["words"].split()
    depth, start, colour = len(before) + 1, places.get(" ".join(before), 0.5), COLOURS[row["state"]]
    extra = row["state"] == EXTRA  # drawn a little below its path
    height = start - 0.13 if extra else places[row["words"]]
    width = 1 + float(row["paths"])
    axes.plot(
        [depth - 1, depth], [start, height], lw=width, alpha=0.7, color=colour, zorder=1, ls="--" if extra else "-"
    )
    box = {"boxstyle": "round,pad=0.25", "fc": "white", "ec": colour, "lw": 1.3}
    text = word + (f" ×{row['paths']}" if row["paths"] not in ("0", "1") else "")
    axes.text(depth, height, text, ha="center", va="center", bbox=box, fontsize=8.5, color=colour)
    numbers = f"p {float(row['p']):.2f}  q {float(row['q']):.2f}"
    axes.text(depth, height - 0.036, numbers, ha="center", va="top", fontsize=6.5, color="#444444")


def _places(ways: list[str]) -> dict[str, float]:
    """Return heights in [0, 1]: leaves apart, parents between their children."""
    leaves = sorted(way for way in ways if not any(other.startswith(f"{way} ") for other in ways))
    places = {way: 1 - (place + 0.5) / len(leaves) for place, way in enumerate(leaves)}
    for way in sorted(ways, key=lambda way: -len(way.split())):
        below = [places[other] for other in ways if other.rpartition(" ")[0] == way]
        places[way] = sum(below) / len(below) if below else places[way]
    return places

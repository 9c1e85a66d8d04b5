"""Ways of decoding by name: what is drafted, by which law, by which rule it is selected from; and how long each call takes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import ot_draft as ot

from ..compare import law_called, law_name, look
from ..errors import CannotDecode
from .draft_plan import Drafting
from .loop import Options, decode_steps
from .pair import Pair
from .step import Seconds, Step

PATH_RULES: dict[str, ot.paths.PathRule] = {
    "joint": ot.paths.Joint(),
    "block": ot.paths.BlockVerification(),
    "traversal": ot.paths.Traversal(),
    "naive": ot.paths.NaiveTarget(),
}
SELECTION_RULES = {
    rule.name.lower(): rule for rule in ot.rules.ALL if not (rule.solves or isinstance(rule, ot.rules.NaiveTarget))
}
OTHER_NAMES = {"naivetarget": "naive", "blockverification": "block"}
AUTOREGRESSIVE = "autoregressive"
LABELS = {"joint": "Joint", "block": "block verification", "traversal": "Traversal", "naive": "naive target sampling"}
LAW_LABELS = {"iid": "i.i.d.", "without-replacement": "without replacement", "hybrid:auto": "hybrid, j from q"}


@dataclass(frozen=True)
class Call:
    """One target call, for one of the texts that it continued: the text's number, and how many tokens were chosen for it.

    wall: seconds until they were there; seconds: of these, those of the parts of the step, None where they are not known.
    """

    text: int
    chosen: float
    wall: float
    seconds: Seconds | None = None


@dataclass(frozen=True)
class Method:
    """One row of a comparison. rule, law: names as on the command line; label, drafts: as in tables."""

    rule: str
    law: str
    label: str
    drafts: str
    drafting: Drafting

    @property
    def K(self) -> int:
        """Number of drafted paths; of a tree, children of the root."""
        return len(self.drafting.shape.children(0))

    @property
    def L(self) -> int:
        """Length of the paths."""
        return self.drafting.shape.length

    def calls(
        self,
        pair: Pair,
        prompts: Sequence[Sequence[int]],
        options: Options,
        watch: Callable[[Method, int, Step], None] = lambda method, text, step: None,
    ) -> Iterator[Call]:
        """Continue a group of prompts, whose numbers are `options.rows`; `watch` sees every step outside the time measured.

        The first step, before which is the prefill, and all steps whose laws are copied for a trace, last as long as their parts.
        """
        texts = range(len(prompts)) if options.rows is None else options.rows
        begin, first = time.perf_counter(), True
        for step in decode_steps(pair, prompts, self.drafting, options):
            wall = step.seconds.total if first or options.laws else time.perf_counter() - begin
            for row, text in enumerate(texts):
                if bool(step.active[row]):
                    yield Call(text, float(step.length[row]) + 1, wall, step.seconds)
                    watch(self, text, step)
            begin, first = time.perf_counter(), False

    @property
    def slug(self) -> str:
        """Name of a folder of its own."""
        words = f"{self.rule} {self.law} {self.drafts.split(',')[0]}" if self.drafting.shape.size else self.rule
        return "-".join("".join(c if c.isalnum() else " " for c in words.lower().replace("×", "x")).split())


def shape_of(paths: int, length: int, tree: Sequence[int] | None) -> ot.paths.TreeShape:
    """A tree by the number of children on every level, or K paths of length L."""
    if tree is not None:
        return ot.paths.TreeShape.by_level(tuple(tree))
    if paths < 1 or length < 1:
        raise CannotDecode(f"K is {paths} and L is {length}: give at least 1 path of at least 1 token")
    return ot.paths.TreeShape.chains(paths, length)


def method_called(rule: str, law: str | None, shape: ot.paths.TreeShape) -> Method:
    """The method of these names; the law is the rule's own where none is given. CannotDecode or InvalidDrafts where they do not fit."""
    short = rule.lower().replace("-", "").replace("_", "")
    short = OTHER_NAMES.get(short, short)
    if short == AUTOREGRESSIVE:
        return Method(AUTOREGRESSIVE, "", AUTOREGRESSIVE, "", Drafting())
    if short not in PATH_RULES and short not in SELECTION_RULES:
        names = [*PATH_RULES, *(rule.name for rule in SELECTION_RULES.values()), AUTOREGRESSIVE]
        raise CannotDecode(f"there is no rule {rule!r} for decoding: take {', '.join(names)}")
    wanted = law or ("top" if short == "naive" else "iid" if short in PATH_RULES else None)
    if short in PATH_RULES:
        path_rule, label = PATH_RULES[short], LABELS[short]
        drawn = _law(wanted or "iid", shape)
    else:
        selection = SELECTION_RULES[short]
        drawn = selection.law if wanted is None else _law(wanted, shape)
        if isinstance(selection, ot.rules.Optimal):
            # Without classes it sorts the vocabulary, which takes a tenth of a step.
            selection = replace(selection, law=drawn, classes=256)
        path_rule, label = ot.paths.TokenWise(selection), look(selection.name).label
        if isinstance(selection, ot.rules.SpeculativeSampling):
            label = "speculative sampling"
    name = "top" if wanted == "top" else law_name(drawn)
    return Method(short, name, label, f"{_shape_label(shape)}, {_law_label(name)}", Drafting(shape, path_rule, drawn))


def methods_to_compare(paths: int, length: int, tree: Sequence[int] | None) -> list[Method]:
    """The default comparison: one draft, K paths of length L, and trees. tree: (K, 2, 1) down to depth L unless given."""
    one, many = shape_of(1, length, None), shape_of(paths, length, None)
    grown = shape_of(paths, length, tuple(tree) if tree else (paths, 2, 1)[:length])
    wanted: list[tuple[str, str | None, ot.paths.TreeShape]] = [
        (AUTOREGRESSIVE, None, many),
        ("speculativesampling", None, one),
        ("block", None, one),
        ("recursiverejection", None, many),
        ("kseq", None, many),
        ("optimal", None, many),
        ("optimal", "hybrid:auto", many),
        ("traversal", None, many),
        ("joint", None, many),
        ("joint", "hybrid:auto", many),
        ("recursiverejectionwithoutreplacement", None, grown),
        ("naive", "top", grown),
    ]
    return list(dict.fromkeys(method_called(*each) for each in wanted))


def _law(name: str, shape: ot.paths.TreeShape) -> ot.DraftLaw:
    """The law of that name; `top`: the draft model's top tokens and nothing else."""
    if name == "top":
        return ot.Hybrid(top=max(shape.branching))
    return law_called(name)


def _shape_label(shape: ot.paths.TreeShape) -> str:
    first = len(shape.children(0))
    if shape == ot.paths.TreeShape.chains(first, shape.length):
        return f"{first} × {shape.length}"
    return "tree " + ",".join(str(len(shape.children(level.start))) for level in shape.levels[:-1])


def _law_label(name: str) -> str:
    return LAW_LABELS.get(name, name)

"""Names of rules on the command line: KSeq, KSeq(factor=2), my_rule.py:MyRule, package.module:NAME."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import click

from .. import laws, rules
from ..data.pairs import PairsFound
from ..data.study import OF_RULE, ErrorOfRule, library_rule, prints_on_stderr, under_laws
from ..errors import DraftSelectionError, InvalidArgument
from ..names import lookup
from ..selection import SelectionRule, with_arguments
from ..verify.refutation import problems_of, refutation
from ..verify.source import RuleSource, import_lines, rule_source
from .console import progress_bar


@dataclass(frozen=True)
class NamedRule:
    """A rule, and the Python that makes it again."""

    rule: SelectionRule
    source: RuleSource


def rule_at(text: str) -> NamedRule:
    """Return the rule of that name: a class, a function that returns a rule, or a rule. Raises UsageError.

    Arguments in brackets are literals (numbers, texts, tuples) or draft laws; nothing else is evaluated.
    """
    match = re.match(r"^(?:(?P<place>.+?):)?(?P<name>[A-Za-z_][\w -]*)(?P<call>\(.*\))?$", text, re.DOTALL)
    if match is None or (match["place"] is None and text.endswith(".py")):
        raise click.UsageError(_which_rule(text))
    place, name, call = match["place"], match["name"], match["call"]
    module = rules if place is None else module_at(place)
    if place is None:
        name = lookup(name, {each: each for each in _rules_in(rules)}, "rule", rules.PAPERS)
    elif not hasattr(module, name):
        raise click.UsageError(f"{place} must define {name}. {_held(_rules_in(module))}")
    rule = named = getattr(module, name)
    if callable(named) and not _is_rule(named):
        rule = _made(named, text, *_arguments(call or "()", text))
    if call and named is rule:
        raise click.UsageError(f"{text} must have no arguments, since {name} is a rule object. Remove the parentheses.")
    if not _is_rule(rule):
        what = f"the class {rule.__name__}" if isinstance(rule, type) else type(rule).__name__
        raise click.UsageError(
            f"{text} must be a selection rule, got {what}. Pass a subclass of otd.SelectionRule with a draft law."
        )
    for part in ("name", "law", "claims", "cost"):
        try:
            getattr(rule, part, None)
        except (Exception, SystemExit) as error:  # a property of a user's class
            raise click.UsageError(
                f"{text}: attribute {part} raised {type(error).__name__}: {error}. Correct the property."
            ) from error
    if not isinstance(getattr(rule, "law", None), laws.DraftLaw):  # a user's class may have none, or anything for one
        raise click.UsageError(f"{text} must have a draft law. Write  law = otd.IID()  in the class.")
    return NamedRule(rule, _source(rule, named, place, name, call))


def rules_at(text: str) -> dict[str, SelectionRule]:
    """The rules of `--rules` by their texts: names of the library's rules in any case, or as in `rule_at`; commas separate them."""
    outside_brackets = r",(?![^()]*\))"  # of one level
    found = [name.strip() for name in re.split(outside_brackets, text) if name.strip()]
    return {name: rule_at(name).rule if _may_be_own(name) else library_rule(name) for name in found}


def refuted_rules(
    text: str, law_names: Sequence[str], ks: Sequence[int], pairs: PairsFound | None = None, most: int = 4
) -> dict[tuple[str, str], str]:
    """Messages on the rules of `--rules` that are refuted on some problem, by rule and draft law; not the library's own.

    law_names: as in `under_laws`. pairs: the first of them, at most `most`, are tried in addition to small problems.
    """
    found: dict[tuple[str, str], str] = {}
    if not _may_be_own(text):
        return found
    given = pairs.choose(range(min(most, len(pairs)))).load() if pairs else None
    tried = [] if given is None else [*zip(given.p, given.q, strict=True)]
    for name, own in rules_at(text).items():
        compared: tuple[SelectionRule, ...] = ()
        with suppress(InvalidArgument):  # the rule is compared under none of these draft laws
            compared = under_laws((own,), law_names, max(ks)) if _may_be_own(name) else ()
        for rule in compared:
            shown = with_arguments(rule)
            with prints_on_stderr(), progress_bar(1, f"looking for a counterexample to {shown}", alike=False):
                wrong = refutation(rule, ks, tried)  # prints of a rule are not part of the table
            if wrong and rule.law == own.law:
                found[shown, rule.law.name] = f"{shown} {wrong}. To see why: ot-draft check '{name}'"
            elif wrong:
                found[shown, rule.law.name] = f"{shown} under {rule.law.name} {wrong}."
            elif tried and not problems_of(tried, rule.law, ks):
                click.echo(
                    f"{shown} is tested on small problems only, since n = {len(tried[0][0]):,} is large. For more: ot-draft check '{name}'",
                    err=True,
                )
    return found


def _may_be_own(text: str) -> bool:
    """Whether the text of `rule_at` names more than a rule of the library without arguments."""
    return re.search(r"[:(]|\.py$", text) is not None


def _which_rule(text: str) -> str:
    """The message for a text that names no rule."""
    if not text.endswith(".py"):
        return (
            f"RULE must be FILE.py:NAME, package.module:NAME or the name of a library rule, got {text!r}. Correct it."
        )
    known = _rules_in(module_at(text))
    return f"RULE must include a name, as in {text}:{(known or ['MyRule'])[0]}, got {text!r}. {_held(known)}"


@dataclass
class RulesOfUser:
    """A context in which an error of a rule of the user, given in `text`, is a UsageError.

    Such an error has a note of `_rule` of data/study.py, or is neither the library's nor one of files.
    """

    text: str

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: object) -> None:
        known = (DraftSelectionError, click.ClickException, OSError)
        if kind is None or not _may_be_own(self.text):
            return
        names = [note.removeprefix(OF_RULE) for note in getattr(error, "__notes__", ()) if note.startswith(OF_RULE)]
        if not names and (issubclass(kind, known) or not issubclass(kind, Exception)):
            return
        told = " ".join(f"{'' if kind is ErrorOfRule else f'{kind.__name__}: '}{error}".split())
        raise click.UsageError(
            f"{self.text}: the rule {' '.join([*names, 'raised'])} {told}. Run ot-draft check for the smallest example."
        ) from error


def _laws() -> dict[str, type[laws.DraftLaw]]:
    """The classes of the library's laws, by name."""
    return {type(law).__name__: type(law) for law in laws.ALL}


def _source(rule: SelectionRule, named: Any, place: str | None, name: str, call: str | None) -> RuleSource:
    if place is None:
        return rule_source(rule)
    module = _module_name(place)
    expression = name if named is rule else f"{name}{call or '()'}"
    expression = re.sub(rf"\b({'|'.join(_laws())})\(", r"otd.\1(", expression.removeprefix(name))
    return RuleSource(tuple(import_lines(module, name)), name + expression)


def _is_rule(value: Any) -> bool:
    return isinstance(value, SelectionRule)  # whatever stands under a name of a user's module


def _held(known: list[str]) -> str:
    return f"Use one of {', '.join(known)}." if known else "Define a subclass of otd.SelectionRule in it."


def _rules_in(module: ModuleType) -> list[str]:
    def fits(value: Any) -> bool:
        if not isinstance(value, type):
            return _is_rule(value)
        return issubclass(value, SelectionRule) and not inspect.isabstract(value)  # of all that the module holds

    public = getattr(module, "__all__", vars(module))
    return [name for name in public if fits(getattr(module, name, None))]


def _module_name(place: str) -> str:
    return Path(place).stem if place.endswith(".py") else place


def module_at(place: str) -> ModuleType:
    """The module at a path or of a name, imported."""
    name = _module_name(place)
    if place.endswith(".py"):
        _make_importable(Path(place), name)
    elif str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    importlib.invalidate_caches()
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and f"{name}.".startswith(f"{error.name}."):
            raise click.UsageError(
                f"module {error.name} not found. Use FILE.py:NAME or package.module:NAME."
            ) from error
        raise click.UsageError(f"{place} cannot be imported: {error}") from error
    except (Exception, SystemExit) as error:  # whatever a file does when it is run; its exit status is not ours
        told = " ".join(f"{type(error).__name__}: {error}".split())
        raise click.UsageError(f"{place} cannot be imported: {told}") from error


def _make_importable(file: Path, name: str) -> None:
    if not file.is_file():
        raise click.UsageError(f"file {file} not found. Correct the path.")
    if not name.isidentifier():
        better = re.sub(r"\W", "_", name)
        raise click.UsageError(
            f"{file} must have a name that Python can import, got {name!r}. Rename it, for example to {better}.py."
        )
    origin = getattr(sys.modules.get(name), "__file__", None)
    other = origin is None or Path(origin).resolve() != file.resolve()
    if other and (name in sys.modules or name in sys.stdlib_module_names):
        raise click.UsageError(f"{file} must have a unique module name, but {name} is in use. Rename the file.")
    if str(file.resolve().parent) not in sys.path:
        sys.path.insert(0, str(file.resolve().parent))


def _arguments(call: str, text: str) -> tuple[list[Any], dict[str, Any]]:
    try:
        match ast.parse(f"rule{call}", mode="eval").body:
            case ast.Call(func=ast.Name(), args=arguments, keywords=keywords):
                options = {str(keyword.arg): _value(keyword.value) for keyword in keywords}
                return [_value(argument) for argument in arguments], options
        raise ValueError
    except (SyntaxError, ValueError, TypeError) as error:
        known = ", ".join(f"{name}()" for name in _laws())
        raise click.UsageError(
            f"{text}: arguments must be literals (2, 'text', (1, 2)) or draft laws ({known}). Correct them."
        ) from error


def _value(node: ast.expr) -> Any:
    """A literal, or a draft law of literals."""
    match node:
        case ast.Call(func=ast.Name(id=name), args=arguments, keywords=keywords) if name in _laws():
            options = {str(keyword.arg): ast.literal_eval(keyword.value) for keyword in keywords}
            return _laws()[name](*map(ast.literal_eval, arguments), **options)
    return ast.literal_eval(node)


def _made(maker: Any, text: str, arguments: list[Any], options: dict[str, Any]) -> Any:
    """The rule that the class or function returns."""
    if inspect.isabstract(maker):
        missing = ", ".join(sorted(maker.__abstractmethods__))
        raise click.UsageError(f"{text} must not be abstract. Implement {missing}.")
    try:
        inspect.signature(maker).bind(*arguments, **options)
    except TypeError as error:
        names = ", ".join(f"{name}=..." for name in inspect.signature(maker).parameters)
        if not inspect.isclass(maker) and not (arguments or options):
            raise click.UsageError(
                f"{text} must be a rule object, got a function of {', '.join(inspect.signature(maker).parameters)}. Write it as __call__ of"
                f" a subclass of otd.SelectionRule, or use otd.rule_from_function(f, law) for a function of one context. If the function"
                f" returns a rule, pass its arguments: '{text}({names})'. Test samplers with otd.check_sampler."
            ) from error
        like = f"{text.partition('(')[0]}({names})"
        raise click.UsageError(f"{text}: {error}. Pass literals in parentheses, as in '{like}'.") from error
    try:
        return maker(*arguments, **options)
    except (Exception, SystemExit) as error:  # whatever the constructor does
        raise click.UsageError(
            f"creating {text} raised {type(error).__name__}: {error}. Correct the arguments or the class."
        ) from error

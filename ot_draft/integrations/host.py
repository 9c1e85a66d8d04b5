"""Is the host that is installed the one that an adapter was written against? If not, refuse, and say what to do."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from types import ModuleType
from typing import Any

from ..errors import DraftSelectionError, MissingPackage


class UnsupportedHost(DraftSelectionError, ImportError):
    """The host has another version, or another interface, than the adapter was written against."""


class NotLossless(DraftSelectionError, ValueError):
    """The host was asked for something under which no rule keeps the target's law."""


def check_version(known: Mapping[str, tuple[str, ...]], variable: str) -> str:
    """The name of the distribution that is installed, of those known by name and versions; raises UnsupportedHost for another version.

    A build's local part (0.33.0+cu130) does not matter. variable: the environment variable that switches the adapter on.
    """
    wanted = " or ".join(f"{package} {' and '.join(versions)}" for package, versions in known.items())
    for package, versions in known.items():
        try:
            found = version(package)
        except PackageNotFoundError:
            continue
        if found.split("+")[0] in versions:
            return package
        raise UnsupportedHost(
            f"{package} {found} is installed; this adapter knows the sampler of {wanted} only: run "
            f" pip install {package}=={versions[-1]}, or unset {variable} to run {package}'s own sampler"
        )
    first = next(iter(known))
    raise MissingPackage(first, first)


def check_choice(name: str, known: tuple[str, ...], variable: str) -> str:
    """The name of a rule, as the environment variable gives it."""
    if name not in known:
        raise NotLossless(f"{variable}={name}: the lossless rules for this host are {', '.join(known)}")
    return name


def check_parameters(module: ModuleType, name: str, ours: Callable[..., Any], options: tuple[str, ...] = ()) -> None:
    """Raise UnsupportedHost unless the parameters of the module's function are the first ones of ours, by name and in order.

    options: parameters of ours that the host does not give. Our own function in its place is fine: hosts load plugins once
    in every process, some of them twice.
    """
    host = getattr(module, name, None)
    if isinstance(host, partial) and host.func is ours:
        return
    where = f"{module.__name__}.{name}"
    if host is None:
        raise UnsupportedHost(f"{where} is not there on this platform: the host has no sampling here to replace")
    theirs = list(inspect.signature(host).parameters)
    mine = [parameter for parameter in inspect.signature(ours).parameters if parameter not in options]
    if theirs != mine[: len(theirs)]:
        raise UnsupportedHost(f"{where} takes ({', '.join(theirs)}), where the adapter takes ({', '.join(mine)})")

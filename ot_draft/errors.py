"""One family of errors: what was given, in which row, and what to do about it."""

from .extras import how_to_install


class DraftSelectionError(Exception):
    """Base of every error that ot_draft raises on purpose."""


class InvalidDistribution(DraftSelectionError, ValueError):
    """p or q is no probability vector, the two do not belong together, or the file that should hold them does not."""


class InvalidDrafts(DraftSelectionError, ValueError):
    """The drafts (token ids, their number, or the law that they follow) do not fit the problem."""


class InvalidArgument(DraftSelectionError, ValueError):
    """An argument that is neither a law of tokens nor drafts: a size, a name, a generator, an option."""


class SolverFailed(DraftSelectionError, RuntimeError):
    """A solver ended without a solution that its own certificate confirms."""


class CannotDecode(DraftSelectionError, ValueError):
    """Models, prompts or options of decoding that do not fit together."""


class MissingPackage(DraftSelectionError, ImportError):
    """Raised if a package of an optional extra is needed and not installed. The message is the command that installs it.

    Parameters
    ----------
    package : str
        Name of the package, for example "torch".
    extra : str
        Extra of ot_draft that installs it, for example "llm".
    """

    def __init__(self, package: str, extra: str) -> None:
        super().__init__(f"{package} is not installed. Run  {how_to_install(package, extra)}")


class CannotAudit(DraftSelectionError, ValueError):
    """A law, a log or an answer of a server from which nothing can be concluded about the tokens that were emitted."""


class SweepFailed(DraftSelectionError, RuntimeError):
    """Workers died more often than was allowed. What they had written stays; the same call goes on from there."""


class InvalidCosts(DraftSelectionError, ValueError):
    """Costs or block efficiencies that no plan can be made from."""


class UnsupportedHost(DraftSelectionError, ImportError):
    """The host has another version, or another interface, than the adapter was written against."""


class NotLossless(DraftSelectionError, ValueError):
    """The host was asked for something under which no rule keeps the target's law."""

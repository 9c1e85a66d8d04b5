"""One family of errors: what was given, in which row, and what to do about it."""

from .extras import how_to_install


class DraftSelectionError(Exception):
    """Base class of all errors that ot_draft raises on purpose."""


class InvalidDistribution(DraftSelectionError, ValueError):
    """Raised if p or q is not a probability vector, their shapes do not fit, or a file does not hold them."""


class InvalidDrafts(DraftSelectionError, ValueError):
    """Raised if draft tokens, their number or their draft law do not fit the problem."""


class InvalidArgument(DraftSelectionError, ValueError):
    """Raised if another argument is invalid: a size, a name, a generator, an option."""


class SolverFailed(DraftSelectionError, RuntimeError):
    """Raised if a solver ends without a solution that its certificate confirms."""


class CannotDecode(DraftSelectionError, ValueError):
    """Raised if models, prompts or options of decoding do not fit together."""


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
    """Raised if a distribution, a log or a response of a server allows no conclusion about the emitted tokens."""


class SweepFailed(DraftSelectionError, RuntimeError):
    """Raised if workers die in every attempt. Complete files are kept; the same call continues."""


class InvalidCosts(DraftSelectionError, ValueError):
    """Raised if costs or block efficiencies allow no plan."""


class UnsupportedHost(DraftSelectionError, ImportError):
    """Raised if an engine has another version or interface than its adapter supports."""


class NotLossless(DraftSelectionError, ValueError):
    """Raised if an engine is asked for a setting under which no rule keeps the target distribution."""

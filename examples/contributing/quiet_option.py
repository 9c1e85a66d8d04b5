"""An option of a command, for ot_draft/cli/decode/options.py."""

from dataclasses import dataclass

from ot_draft.cli.decode import options
from ot_draft.cli.options import option


@dataclass(frozen=True)
class OutputOptions(options.OutputOptions):  # here that the example can run; else a line of the class itself
    """Output: views, files and tables."""

    quiet: bool = option("--quiet", is_flag=True, help="Print nothing but the texts.")


# ot_draft/cli/decode/settings.py: what it does not go with, and the remedy
EXCLUSIONS = (
    (lambda s: s.output.quiet and s.output.compare is not None, "--quiet requires a single rule. Remove --compare."),
)

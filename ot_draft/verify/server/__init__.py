"""Is a running engine lossless? Its emitted tokens against the distributions that it reports, by anytime-valid e-values."""

from ...errors import CannotAudit
from .audit import Audit
from .log import read_log
from .log_writer import LogWriter, emitted_with_laws
from .records import Token
from .report import ServerReport

__all__ = ["Audit", "CannotAudit", "LogWriter", "ServerReport", "Token", "emitted_with_laws", "read_log"]

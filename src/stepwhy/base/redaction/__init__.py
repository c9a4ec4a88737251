"""Replace secrets and private data in text.

Everything that stepwhy shows or writes passes through a `Redactor`: the strings of a trace before
they are analysed, run directories, command lines and errors. The package imports only the standard
library, because the observer runs inside training jobs.

`docs/explanation/privacy.md` explains what is found and what is not.
"""

from stepwhy.base.redaction.redactor import REDACTED, Redactor
from stepwhy.base.redaction.rules import Rule

__all__ = ["REDACTED", "Redactor", "Rule"]

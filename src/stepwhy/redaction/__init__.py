"""Secrets and private facts in text, and what is shown in their place.

Everything that stepwhy shows or writes passes through a `Redactor`: the strings of a trace before
they are analysed, what the observer writes into a run directory, command lines and errors. The
package imports nothing but the standard library, because the observer runs inside training jobs.

`docs/explanation/privacy.md` says what is found and what cannot be.
"""

from stepwhy.redaction.redactor import REDACTED, Redactor
from stepwhy.redaction.rules import Rule

__all__ = ["REDACTED", "Redactor", "Rule"]

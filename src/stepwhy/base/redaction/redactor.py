"""Replace the matches of the rules."""

from __future__ import annotations

import os
import re
from functools import cached_property

from stepwhy.base.patterns import regex
from stepwhy.base.redaction.assignments import ASSIGNMENT, OPTION, STRICT, is_secret_variable
from stepwhy.base.redaction.homes import HOMES, is_identifying
from stepwhy.base.redaction.logins import LOGINS
from stepwhy.base.redaction.rules import ADDRESSES, MACHINES, TOKENS, Rule, begins_word

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

    Span = tuple[int, int, str]

REDACTED = "[redacted]"
_SHOWN = {
    "secret": REDACTED,
    "home": "~",
    "user": "[user]",
    "host": "[host]",
    "email": "[email]",
    "address": "[address]",
}
_REDACTED_BEFORE = regex(r"\[?(?:redacted|user|host|email|address)(?:-\d+)?\**\]?|\*+|~\d*/*")

# Shorter values of secret variables are flags or numbers; shorter host names are parts of words.
_SHORTEST_VALUE = 6
_SHORTEST_HOST = 5


class Redactor:
    """Replaces secrets and private data in text.

    Args:
        users: Names of users, replaced as whole words.
        hosts: Names of machines, replaced as whole words.
        values: Known secrets, replaced anywhere.
        homes: Home folders that the rules would not recognise.
        strict: Also replace possible secrets, as on a command line.
        distinct: Number the secrets, so that texts that differ only in a secret stay different.

    Attributes:
        rules: Rules that are applied.
    """

    def __init__(
        self,
        users: Iterable[str] = (),
        hosts: Iterable[str] = (),
        values: Iterable[str] = (),
        homes: Iterable[str] = (),
        *,
        strict: bool = False,
        distinct: bool = False,
    ) -> None:
        self.users = frozenset(user for user in users if is_identifying(user))
        self.hosts = frozenset(host for host in hosts if is_identifying(host, _SHORTEST_HOST))
        self.values = frozenset(value for value in values if len(value) >= _SHORTEST_VALUE)
        self.homes = frozenset(home for home in homes if home.count("/") > 1)
        self._strict, self._distinct = strict, distinct
        self._numbers: dict[str, dict[str, int]] = {}
        self.rules: tuple[Rule, ...] = (
            *(_literal("home", self.homes, r"(?=[/\\\s:;,\"')\]\x00-\x1f]|$)")),
            *HOMES,
            *(_literal("secret", self.values)),
            *TOKENS,
            *ADDRESSES,
            *LOGINS,
            *(STRICT if strict else (ASSIGNMENT, OPTION)),
            *MACHINES,
            *(_literal("user", self.users, _WORD_END, begins_word)),
            *(_literal("host", self.hosts, _WORD_END, begins_word)),
        )

    @classmethod
    def of_process(
        cls,
        environ: Mapping[str, str] | None = None,
        *,
        strict: bool = False,
        distinct: bool = False,
    ) -> Redactor:
        """A redactor that knows the user, home, machine and secret variables of this process.

        Args:
            environ: Environment; that of this process by default.
            strict: See the class.
            distinct: See the class.
        """
        env = os.environ if environ is None else environ
        return cls(
            users=[env.get(name, "") for name in ("USER", "LOGNAME", "USERNAME")],
            hosts=[machine_name()],
            values=[value for name, value in env.items() if is_secret_variable(name)],
            homes=[env.get("HOME", "").rstrip("/")],
            strict=strict,
            distinct=distinct,
        )

    @cached_property
    def _probe(self) -> re.Pattern[str]:
        """Pattern for any of the hints, in lower-case text."""
        return re.compile(_any_of({hint for rule in self.rules for hint in rule.hints}))

    @classmethod
    def none(cls) -> Redactor:
        """A redactor that replaces nothing."""
        redactor = cls()
        redactor.rules = ()
        return redactor

    def knowing(self, users: Iterable[str]) -> Redactor:
        """A copy of this redactor that shares its numbers and knows more users."""
        more = Redactor(
            {*self.users, *users},
            self.hosts,
            self.values,
            self.homes,
            strict=self._strict,
            distinct=self._distinct,
        )
        more._numbers = self._numbers
        return more

    def __reduce__(self) -> tuple[Callable[..., Redactor], tuple[object, ...]]:
        """What makes a copy, also in another process, that continues the numbers by itself."""
        numbers = {kind: dict(of_kind) for kind, of_kind in self._numbers.items()}
        known = (self.users, self.hosts, self.values, self.homes)
        state = (known, self._strict, self._distinct, bool(self.rules), numbers)
        return Redactor._restored, state

    @classmethod
    def _restored(
        cls,
        known: tuple[frozenset[str], ...],
        strict: bool,
        distinct: bool,
        has_rules: bool,
        numbers: dict[str, dict[str, int]],
    ) -> Redactor:
        """A redactor with the state of another one, see `__reduce__`."""
        redactor = cls(*known, strict=strict, distinct=distinct)
        redactor._numbers = numbers
        if not has_rules:
            redactor.rules = ()
        return redactor

    def text(self, text: str) -> str:
        """Redact a text."""
        spans = self.spans(text)
        if not spans:
            return text
        parts, position = [], 0
        for start, end, kind in spans:
            parts += [text[position:start], self._shown(kind, text[start:end])]
            position = end
        return "".join((*parts, text[position:]))

    def texts(self, texts: Iterable[str]) -> list[str]:
        """Redact several texts."""
        return [self.text(text) for text in texts]

    def spans(self, text: str, hints: Collection[str] | None = None) -> list[Span]:
        """Start, end and kind of what is replaced, in order and without overlaps.

        Args:
            text: The text.
            hints: Hints of rules that occur in it, if already known.
        """
        if hints is None:
            hints = self._hints(text.lower())
        if not hints:
            return []
        found = [
            (start, -end, rule.kind)
            for rule in self.rules
            if any(hint in hints for hint in rule.hints)
            for start, end in rule.spans(text)
            if not _REDACTED_BEFORE.fullmatch(text, start, end)
        ]
        return list(_merged(sorted(found))) if found else []

    def _hints(self, lowered: str) -> frozenset[str]:
        """Hints that occur in a lower-case text."""
        if not self.rules or self._probe.search(lowered) is None:
            return frozenset()
        found = (hint for rule in self.rules for hint in rule.hints if hint in lowered)
        return frozenset(found)

    def number(self, kind: str, secret: str) -> int:
        """Number of a secret among those of its kind, starting at 1."""
        numbers = self._numbers.setdefault(kind, {})
        return numbers.setdefault(secret, len(numbers) + 1)

    def _shown(self, kind: str, secret: str) -> str:
        shown = _SHOWN[kind]
        number = self.number(kind, secret) if self._distinct else 1
        if number == 1:
            return shown
        return f"{shown[:-1]}-{number}]" if shown.endswith("]") else f"{shown}{number}"


def machine_name() -> str:
    """Name of this machine; '' if unknown."""
    return os.uname().nodename if hasattr(os, "uname") else ""


def users_in(text: str) -> Iterator[str]:
    """Names of users whose home folders occur in a text."""
    lowered = text.lower()
    for rule in HOMES:
        if "user" in rule.pattern.groupindex and rule.may_match(lowered):
            yield from (match["user"] for match in rule.pattern.finditer(text))


def _any_of(hints: set[str]) -> str:
    """Regular expression for any of many texts, grouped by first letter for speed."""
    groups: dict[str, list[str]] = {}
    for hint in sorted(hints):
        groups.setdefault(hint[:1], []).append(re.escape(hint[1:]))
    if "" in groups:
        return ""
    return "|".join(f"{re.escape(first)}(?:{'|'.join(g)})" for first, g in groups.items())


# In a protobuf file, the tag of the next field may look like a letter; its length follows.
_WORD_END = r"(?![A-Za-z0-9](?![\x00-\x08\x0e-\x1f\x80-\xff]))"


def _literal(
    kind: str,
    texts: frozenset[str],
    end: str = "",
    holds: Callable[[re.Match[str]], bool] | None = None,
) -> list[Rule]:
    """A rule for known texts, if there are any."""
    if not texts:
        return []
    # Prefer the longer one of two with the same beginning.
    longest_first = sorted(texts, key=lambda text: (-len(text), text))
    either = "|".join(map(re.escape, longest_first))
    hints = tuple(text.lower() for text in longest_first)
    return [Rule(kind, hints, regex(f"(?P<s>{either}){end}", re.ASCII), holds)]


def _merged(spans: list[tuple[int, int, str]]) -> Iterator[Span]:
    """Merge overlapping spans; their ends are passed as negative numbers."""
    first, last, kind = spans[0][0], -spans[0][1], spans[0][2]
    for start, negative_end, other in spans[1:]:
        if start >= last:
            yield first, last, kind
            first, last, kind = start, -negative_end, other
        else:
            last = max(last, -negative_end)
    yield first, last, kind

"""Secrets with a telling name: `HF_TOKEN=...`, `"password": "..."`."""

from __future__ import annotations

import re

from stepwhy.base.patterns import regex
from stepwhy.base.redaction.rules import HintedRule, Rule, words_of

_ASSIGNMENT = regex(
    r"(?P<word>(?i:tokens?|passwo?r?d|passphrase|secret|cred(?:ential)?s?|pwd|pat|auth(?:orization)?|key(?:[-_]?id)?))"
    r"(?:\\{0,3}[\"'])?\]?\s{0,3}(?:=>|[:=](?![:=]))\s{0,3}"
    r"(?P<open>\\{0,3}[\"'])?"
    r"(?:(?i:bearer|basic|token)\s+)?"
    r"(?P<s>(?(open)(?:(?!(?P=open))(?:\\[\s\S]|[^\x00-\x08\x0e-\x1f]))+"
    r"|[^\s,;&'\"}\])\x00-\x1f]+))",
    re.ASCII,
)
_HINTS = ("token", "passw", "passphrase", "secret", "cred", "pwd", "auth", "key")
# 'pat' is a personal access token, but 'path' and 'pattern' start with it, too.
_PAT_HINTS = tuple(f"pat{sign}" for sign in ("=", ":", "'", '"', "\\", "]", " ="))
# Options in a text: '--api-key VALUE'.
_OPTION = regex(
    r"(?<![\w\-])--?[A-Za-z0-9_.\-]{0,64}?"
    r"(?P<word>(?i:token|passwo?r?d|passphrase|secret|cred(?:ential)?s?|pwd|pat|key))\s+"
    r"[\"']?(?P<s>[^\s\-,;&'\"}\])\x00-\x1f][^\s,;&'\"}\])\x00-\x1f]*)",
    re.ASCII,
)
_NAME_BEFORE = regex(r"[A-Za-z0-9_.\-]*\Z", re.ASCII)
_PART = regex(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+", re.ASCII)
_VARIABLE = regex(r"[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+$", re.ASCII)
_LONGEST_NAME = 64

# Words before 'key' or 'token' that make it a secret: attention has keys, and language models have
# tokens of many kinds.
_OF_KEYS = words_of(
    """
    access account anthropic api auth aws azure client comet consumer deploy encryption hf license
    master neptune openai private secret service shared signing ssh storage wandb
    """
)
_OF_TOKENS = words_of(
    """
    access account api app auth azure bearer bot ci comet deploy face gh github gitlab hf hub
    huggingface id identity job jwt login neptune oauth personal refresh registry sas secret
    security service session slack user wandb
    """
)
# Values that are not secret: types, placeholders, names of variables, redacted values.
_TRIVIAL = regex(
    r"(?i:none|null|nil|true|false|yes|no|str|string|int|float|bool|bytes|object|any|optional)"
    r"|\*+|[xX]{3,}|\.+|<[^>]*>|\$\{?\w+\}?|\[redacted.*|\{\}|\(\)",
    re.ASCII,
)
# Tokens and keys are also operands in compiler expressions: 'token=%after-all.3', 'token[]'.
_EXPRESSION = regex(r"%.*|.*\[\]?|.*\(.*|\[.*|\{.*", re.ASCII | re.DOTALL)
_NUMBER = regex(r"[-+]?[\d_]{1,12}(?:\.\d+)?", re.ASCII)
_SHORTEST_TOKEN = 6


def is_secret_name(name: str, *, strict: bool = False) -> bool:
    """Whether a value with this name is a secret.

    Args:
        name: A name such as 'HF_TOKEN', 'api-key' or 'AccountKey'.
        strict: Treat any key or token as a secret, as on a command line.
    """
    words = _PART.findall(name)
    parts = [word.lower() for word in words]
    if len(parts) > 1 and parts[-1] == "id":
        parts.pop()
    if not parts:
        return False
    *before, last = parts
    qualifier, is_environment = (before or [""])[-1], bool(_VARIABLE.search(name))
    if last == "pwd":
        return name not in {"PWD", "OLDPWD"}
    if last.endswith(("password", "passwd", "passphrase", "secret")):
        return True
    if last in {"cred", "creds", "credential", "credentials", "auth", "authorization"}:
        return True
    if last in {"pw", "pass"}:  # else a point-wise operation, or a compiler pass
        return strict
    if last == "pat":  # a personal access token
        return strict or qualifier in _OF_TOKENS or words[-1].isupper()
    if last.endswith("key"):
        of = last.removesuffix("key") or qualifier
        return of in _OF_KEYS or (last == "key" and (strict or is_environment))
    if last.endswith("token"):
        of = last.removesuffix("token") or qualifier
        is_environment |= words[-1].isupper()  # 'MYTOKEN'
        return not of or of in _OF_TOKENS or strict or is_environment
    return False


def is_secret_variable(name: str) -> bool:
    """Whether an environment variable contains a secret, judged by its name."""
    return is_secret_name(name.upper(), strict=True)


def _name_of(match: re.Match[str]) -> str:
    """The whole name that ends with the matched word; '' for the user in a URL."""
    text, start = match.string, match.start()
    before = _NAME_BEFORE.search(text[max(start - _LONGEST_NAME, 0) : start])
    begin = before.start() if before else start
    is_login = text[max(start - _LONGEST_NAME, 0) : start][:begin].endswith("://")
    return "" if is_login else f"{before[0] if before else ''}{match['word']}"


def _is_plain(match: re.Match[str]) -> bool:
    """Whether a value in a string of a trace is a secret."""
    name, value = _name_of(match), match["s"]
    if not is_secret_name(name):
        return False
    is_password = "pass" in match["word"].lower()
    if _TRIVIAL.fullmatch(value) or (not is_password and _EXPRESSION.fullmatch(value)):
        return False
    if _NUMBER.fullmatch(value):
        # 'password:0' is the first output of an operation.
        return is_password and not (":" in match[0] and len(value) < 4)
    return name != "token" or len(value) >= _SHORTEST_TOKEN


def _is_strict(match: re.Match[str]) -> bool:
    """Whether a value on a command line is a secret."""
    return is_secret_name(_name_of(match), strict=True)


def _is_option(match: re.Match[str]) -> bool:
    """Whether an option in a string of a trace is followed by a secret."""
    name = match[0].split()[0].lstrip("-")
    return is_secret_name(name, strict=True) and not _TRIVIAL.fullmatch(match["s"])


ASSIGNMENT = HintedRule("secret", (*_HINTS, *_PAT_HINTS), _ASSIGNMENT, _is_plain)
"""Rule for `name=value` in any text."""

OPTION = Rule("secret", (*_HINTS, "pat "), _OPTION, _is_option)
"""Rule for `--name value` in any text."""

STRICT = (
    HintedRule("secret", (*_HINTS, *_PAT_HINTS), _ASSIGNMENT, _is_strict),
    # An unbroken run of 40 hex or base64 characters is a key more often than a name.
    Rule(
        "secret",
        ("",),
        regex(
            r"(?<![A-Za-z0-9/+_\-.])(?P<s>[A-Za-z0-9+]{40,}={0,2})(?![A-Za-z0-9/+_\-.])", re.ASCII
        ),
    ),
)
"""Stricter rules for command lines, where redacting too much does no harm."""

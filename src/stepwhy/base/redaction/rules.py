"""One rule per kind of secret.

A rule has hints: a text without any of them cannot match, and regular expressions are compiled when
a hint first occurs. Most texts contain no hint, so checking them costs a few substring searches.
"""

from __future__ import annotations

import re

from stepwhy.base.patterns import regex

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_ASCII = re.ASCII
_ASCII_ANY_CASE = re.ASCII | re.IGNORECASE


class Rule:
    """One kind of secret.

    Args:
        kind: 'secret', 'home', 'user', 'host', 'email' or 'address'.
        hints: Lower-case texts; every matching text contains at least one of them.
        pattern: Regular expression whose group `s` is replaced.
        holds: Decides whether a match counts, for example by its context.
    """

    __slots__ = ("_holds", "hints", "kind", "pattern")

    def __init__(
        self,
        kind: str,
        hints: tuple[str, ...],
        pattern: re.Pattern[str],
        holds: Callable[[re.Match[str]], bool] | None = None,
    ) -> None:
        self.kind = kind
        self.hints = hints
        self.pattern = pattern
        self._holds = holds

    def may_match(self, lowered: str) -> bool:
        """Whether a lower-case text contains any of the hints."""
        return any(hint in lowered for hint in self.hints)

    def spans(self, text: str) -> Iterator[tuple[int, int]]:
        """Start and end of each part to replace."""
        for match in self.matches(text):
            if self._holds is None or self._holds(match):
                yield match.span("s")

    def matches(self, text: str) -> Iterator[re.Match[str]]:
        """Matches of the expression."""
        yield from self.pattern.finditer(text)


class HintedRule(Rule):
    """A rule whose matches start with a hint, for expressions that are slow to search."""

    __slots__ = ()

    def matches(self, text: str) -> Iterator[re.Match[str]]:
        """Matches of the expression."""
        lowered = text.lower()
        if len(lowered) != len(text):  # the lower case of a letter has several characters
            yield from self.pattern.finditer(text)
            return
        for hint in self.hints:
            place = lowered.find(hint)
            while place >= 0:
                match = self.pattern.match(text, place)
                if match is not None:
                    yield match
                place = lowered.find(hint, place + len(hint))


def words_of(text: str) -> frozenset[str]:
    """The words of a text."""
    return frozenset(text.split())


# Wire tags of text fields 1 to 7, and 8 to 15, in a protobuf file. A length byte follows, which may
# look like a letter; the tags of fields 8 to 15 are letters themselves.
_TEXT_TAGS, _LETTER_TAGS = frozenset('\n\x12\x1a"*2:'), frozenset("BJRZbjrz")
_ESCAPED_SPACES = frozenset({"\\n", "\\r", "\\t"})


def begins_word(match: re.Match[str]) -> bool:
    """Whether no letter or digit precedes a match."""
    text, start = match.string, match.start()
    if not _is_word(text[max(start - 1, 0) : start]):
        return True
    before = text[max(start - 2, 0) : start]
    if before in _ESCAPED_SPACES or before[:1] in _TEXT_TAGS:
        return True
    return before[:1] in _LETTER_TAGS and not _is_word(text[max(start - 3, 0) : start - 2])


def _is_word(character: str) -> bool:
    """Whether it is an ASCII letter or digit; False for an empty string."""
    return character.isascii() and character.isalnum()


def _token(hints: str, pattern: str) -> Rule:
    """Rule for a token with the prefix that its issuer documents."""
    return Rule("secret", tuple(hints.split()), regex(f"(?P<s>{pattern})", _ASCII), begins_word)


TOKENS = (
    # Hugging Face Hub documentation, "User access tokens".
    _token("hf_", r"(?:api_org|hf)_(?:[A-Za-z0-9]{30,}|(?=[a-z]*[A-Z0-9])[A-Za-z0-9]{12,})"),
    # GitHub Docs, "About authentication to GitHub", section "GitHub's token formats".
    _token("ghp_ gho_ ghu_ ghs_ ghr_", r"gh[pousr]_[A-Za-z0-9]{12,}"),
    _token("github_pat_", r"github_pat_[A-Za-z0-9_]{12,}"),
    # GitLab Docs, "GitLab token overview", section "Token prefixes".
    _token(
        "glpat- gloas- gldt- glrt- glcbt- glptt- glft- glimt- glagent- glsoat- glffct-",
        r"gl(?:pat|oas|dt|rt|cbt|ptt|ft|imt|agent|soat|ffct)-[A-Za-z0-9_.\-]{12,}",
    ),
    # AWS IAM User Guide, "IAM identifiers", section "Understanding unique ID prefixes".
    _token("akia asia abia acca", r"(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{12,}(?![a-z])"),
    # Google Cloud, "Manage API keys"; Google Identity, "Using OAuth 2.0 to Access Google APIs".
    _token("aiza", r"AIza[A-Za-z0-9_\-]{30,}"),
    _token("ya29.", r"ya29\.[A-Za-z0-9_\-]{12,}"),
    _token("gocspx-", r"GOCSPX-[A-Za-z0-9_\-]{12,}"),
    # OpenAI, "API Reference", section "Authentication"; Anthropic, "API overview".
    _token(
        "sk-",
        r"sk-(?:(?:proj|ant|svcacct|admin|or)-[A-Za-z0-9_\-]{12,}|(?=[A-Za-z]*[0-9])[A-Za-z0-9]{20,})",
    ),
    # Slack, "Token types" and "Sending messages using incoming webhooks".
    _token(
        "xoxa- xoxb- xoxc- xoxd- xoxe- xoxo- xoxp- xoxr- xoxs- xoxe.",
        r"xox[abcdeoprs](?:-|\.xox[bp]-)[A-Za-z0-9\-]{8,}",
    ),
    _token("xapp-", r"xapp-[0-9]-[A-Za-z0-9\-]{8,}"),
    Rule(
        "secret",
        ("hooks.slack.com/services/",),
        regex(r"hooks\.slack\.com/services/(?P<s>[A-Za-z0-9/_]{8,})", _ASCII),
    ),
    # Weights & Biases, "wandb login", section "API key formats"; older keys are 40 hex characters,
    # as commits are, so they are recognised by the preceding text.
    _token("wandb_v1_", r"wandb_v1_[A-Za-z0-9_]{12,}"),
    Rule(
        "secret",
        ("wandb",),
        regex(
            r"wandb[a-z_.\- ]{0,24}[\s=:(\"'\\]{1,4}(?P<s>[0-9a-f]{40})",
            _ASCII_ANY_CASE,
        ),
    ),
    # neptune.ai, "Find your Neptune API token": base64 of {"api_address": ... without dots.
    _token("eyjhcglf", r"eyJhcGlf[A-Za-z0-9+/_\-]{12,}={0,2}"),
    # RFC 7519, "JSON Web Token": base64 of {"..., three parts.
    _token("eyj", r"eyJ[A-Za-z0-9_\-]{8,}\.[A-Za-z0-9_\-]{2,}\.[A-Za-z0-9_\-]*"),
    # Databricks, "Authenticate with Databricks personal access tokens".
    _token("dapi", r"dapi[0-9a-f]{32}(?:-[0-9]+)?"),
    # NVIDIA NGC User Guide, "Generating a Personal API Key".
    _token("nvapi-", r"nvapi-[A-Za-z0-9_\-]{20,}"),
    # HashiCorp Vault, "Tokens", section "Token prefixes".
    _token("hvs. hvb. hvr.", r"hv[sbr]\.[A-Za-z0-9_\-]{20,}"),
    # Docker Docs, "Personal access tokens"; npm Docs, "About access tokens"; PyPI, "API tokens".
    _token("dckr_pat_ dckr_oat_", r"dckr_[po]at_[A-Za-z0-9_\-]{12,}"),
    _token("npm_", r"npm_[A-Za-z0-9]{30,}"),
    _token("pypi-ageicheaw5 pypi-age", r"pypi-AgE[A-Za-z0-9_\-]{12,}"),
    # Groq, "API Keys"; Replicate, "Authentication"; Stripe Docs, "API keys" and "Webhooks".
    _token("gsk_", r"gsk_(?=[A-Za-z]*[0-9])[A-Za-z0-9]{20,}"),
    _token("r8_", r"r8_(?=[A-Za-z]*[0-9])[A-Za-z0-9]{30,}"),
    _token("sk_live_ sk_test_ rk_live_ rk_test_", r"[sr]k_(?:live|test)_[A-Za-z0-9]{12,}"),
    _token("whsec_", r"whsec_[A-Za-z0-9+/]{12,}={0,2}"),
    # Twilio SendGrid Docs, "API Keys"; Twilio Docs, "String Identifiers (SIDs)". An account SID is
    # only looked for after 'twilio', because many words contain 'ac'.
    _token("sg.", r"SG\.[A-Za-z0-9_\-]{16,}\.[A-Za-z0-9_\-]{16,}"),
    _token(" ".join(f"sk{digit}" for digit in "0123456789abcdef"), r"SK[0-9a-f]{32}"),
    Rule(
        "secret",
        ("twilio",),
        regex(
            r"twilio[a-z0-9_.\-/]{0,48}[\s=:/(\"'\\]{1,4}(?P<s>AC[0-9a-f]{32})",
            _ASCII_ANY_CASE,
        ),
    ),
    # Telegram, "Bot API", section "Authorizing your bot".
    _token(":aa", r"[0-9]{8,10}:AA[A-Za-z0-9_\-]{33}"),
    # Discord Developer Docs, "Webhook Resource".
    Rule(
        "secret",
        ("/webhooks/",),
        regex(
            r"discord(?:app)?\.com/api/(?:v[0-9]+/)?webhooks/[0-9]+/(?P<s>[A-Za-z0-9_\-]{8,})",
            _ASCII,
        ),
    ),
    # DigitalOcean, "API Reference", section "Authentication".
    _token("dop_v1_ doo_v1_ dor_v1_", r"do[opr]_v1_[0-9a-f]{32,}"),
    # RFC 7468, "Textual Encodings of PKIX, PKCS, and CMS Structures"; line breaks may be escaped.
    Rule(
        "secret",
        ("private key",),
        regex(r"PRIVATE KEY(?: BLOCK)?-----(?P<s>[A-Za-z0-9+/=\\\s]{8,16384})", _ASCII),
    ),
)
"""Tokens with a known prefix, with the page of the issuer that documents it."""


def _is_login(match: re.Match[str]) -> bool:
    """Whether 'user:password@' is not part of a longer name."""
    before = match.string[max(match.start() - 1, 0) : match.start()]
    return before not in {*":.@-_$"} and begins_word(match)


def _looks_encoded(match: re.Match[str]) -> bool:
    """Whether the text after 'Basic' is base64 rather than a word."""
    value = match["s"]
    return begins_word(match) and (
        any(c in "0123456789+/=" for c in value) or value[1:] != value[1:].lower()
    )


ADDRESSES = (
    # RFC 3986, "Uniform Resource Identifier (URI): Generic Syntax", section "User Information".
    Rule("secret", ("://",), regex(r"://(?P<s>[^/@\s\"'\\<>?#\x00-\x1f]+)@", _ASCII)),
    Rule(
        "secret",
        ("@",),
        regex(
            r"(?P<s>[A-Za-z_][\w.+\-]*:[^\s:@/\"'\\,;(){}<>\[\]\x00-\x1f]{3,})@(?=[A-Za-z0-9])",
            _ASCII,
        ),
        _is_login,
    ),
    # Amazon S3, "Authenticating Requests: Using Query Parameters"; Google Cloud Storage, "Signed
    # URLs"; Azure Storage, "Grant limited access to Azure Storage resources using shared access
    # signatures (SAS)".
    Rule(
        "secret",
        ("sig=", "signature=", "token=", "key=", "secret=", "password=", "credential=", "auth="),
        regex(
            r"[?&;](?:amp;)?[a-z0-9_.\-]*(?:sig|signature|token|key|secret|password|credential|auth)="
            r"(?P<s>[^&;\s\"'\\<>#\x00-\x1f]+)",
            _ASCII_ANY_CASE,
        ),
    ),
    # RFC 6750, "The OAuth 2.0 Authorization Framework: Bearer Token Usage".
    Rule(
        "secret",
        ("bearer ", "bearer:"),
        regex(r"bearer[\s:]{1,3}(?P<s>[a-z0-9._~+/\-]{6,}=*)", _ASCII_ANY_CASE),
        begins_word,
    ),
    # RFC 7617, "The 'Basic' HTTP Authentication Scheme".
    Rule(
        "secret",
        ("basic ",),
        regex(r"(?:Basic|basic|BASIC) +(?P<s>[A-Za-z0-9+/]{8,}={0,2})", _ASCII),
        _looks_encoded,
    ),
    # RFC 6265, "HTTP State Management Mechanism", sections "Set-Cookie" and "Cookie".
    Rule(
        "secret",
        ("cookie",),
        regex(
            r"(?:set-)?cookie(?:\\{0,3}[\"'])?\s{0,3}[:=]\s{0,3}(?:\\{0,3}[\"'])?"
            r"(?P<s>[\w!#$%&*+.^`|~\-]+=[^\r\n\"'\x00-\x1f]+)",
            _ASCII_ANY_CASE,
        ),
        begins_word,
    ),
    # RFC 5322, "Internet Message Format", section "Addr-Spec Specification"; the domain must end
    # with a name, unlike versions such as 'memcpy@GLIBC_2.14'.
    Rule(
        "email",
        ("@",),
        regex(
            r"(?P<s>[A-Za-z0-9][\w.+\-]*@(?:[A-Za-z0-9][A-Za-z0-9\-]*\.)+[A-Za-z]{2,24})(?![A-Za-z_(@])",
            _ASCII,
        ),
        begins_word,
    ),
)
"""Logins, signed addresses, headers and e-mail addresses."""

# Four numbers are an address, rather than a version of a library, if a port follows or this text
# precedes them.
_BEFORE_ADDRESS = regex(
    r"(?:://|@|\bipv4:|\b(?:to|from|at|on|via|ip|host|addr|address|node|peer|server|master|endpoint|"
    r"store|connect|connection|bind|listen|listening|port|rank|worker)[a-z_]*[\s=:\"'(\[/]{1,4})$",
    _ASCII_ANY_CASE,
)
_PORT = regex(r"[:/]\d{2,5}\b", _ASCII)
_NOT_PRIVATE = ("127.", "0.", "255.")


def _is_address(match: re.Match[str]) -> bool:
    """Whether four numbers are the address of a machine rather than a version."""
    text, (start, end), value = match.string, match.span("s"), match["s"]
    if text[max(start - 1, 0) : start] in {*"0123456789."} or text[end : end + 1].isalnum():
        return False
    if text[end : end + 2][:1] == "." and text[end + 1 : end + 2].isdigit():
        return False
    numbers = [int(part) for part in value.split(".")]
    if max(numbers) > 255 or value.startswith(_NOT_PRIVATE):
        return False
    # RFC 1918, "Address Allocation for Private Internets"; 10.x may be a version of CUDA.
    local = numbers[:2] == [192, 168] or (numbers[0] == 172 and 16 <= numbers[1] < 32)
    before = text[max(start - 24, 0) : start]
    return local or bool(_PORT.match(text, end)) or bool(_BEFORE_ADDRESS.search(before))


# Search for the first dot, because traces contain many digits but few dots.
_DOTTED = regex(r"\.[0-9]{1,3}\.[0-9]{1,3}\.[0-9]", _ASCII)


class _AddressRule(Rule):
    """Rule for four numbers separated by dots."""

    __slots__ = ()

    def matches(self, text: str) -> Iterator[re.Match[str]]:
        """Matches of the expression."""
        for dotted in _DOTTED.finditer(text):
            start = dotted.start()
            while start > 0 and dotted.start() - start < 3 and text[start - 1] in "0123456789":
                start -= 1
            match = self.pattern.match(text, start)
            if match is not None:
                yield match


MACHINES = (
    _AddressRule(
        "address",
        tuple(f"{left}.{right}" for left in range(10) for right in range(10)),
        regex(r"(?P<s>[0-9]{1,3}\.[0-9]{1,3}\.[0-9]{1,3}\.[0-9]{1,3})", _ASCII),
        _is_address,
    ),
    # RFC 3986, section "Host": an IPv6 literal is in brackets; gRPC writes 'ipv6:'.
    Rule(
        "address",
        ("ipv6:", *(f"]:{digit}" for digit in range(10))),
        regex(
            r"(?:(?<=\[)|ipv6:)(?P<s>(?:[0-9a-f]{0,4}:){2,7}[0-9a-f]{1,4}(?:%\w+)?)(?=\]:|:|/|\s|$)",
            _ASCII_ANY_CASE,
        ),
    ),
    # Amazon EC2 User Guide, "EC2 instance hostnames and domains".
    Rule(
        "host",
        ("ip-",),
        regex(r"(?P<s>ip-\d{1,3}(?:-\d{1,3}){3}(?:\.[\w\-]+)*)", _ASCII),
        begins_word,
    ),
)
"""Rules for addresses of machines."""

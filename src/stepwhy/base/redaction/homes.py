"""Home folders and their users."""

from __future__ import annotations

import re

from stepwhy.base.patterns import regex
from stepwhy.base.redaction.rules import Rule, begins_word, words_of

_ASCII = re.ASCII
_ASCII_ANY_CASE = re.ASCII | re.IGNORECASE
_SHORTEST_USER = 3

# Names of shared accounts, and user names that are also technical terms.
_COMMON_WORDS = words_of(
    """
    adam admin administrator all ada amp app aten azureuser batch bert bin build cloud code conda
    cpu ctr data debian default demo desktop dev developer docker dot ec2-user exp experiment gpu
    guest home host jax jenkins jit job jovyan jupyter keras lamb lars linux linuxbrew local
    localhost loss main mamba mark max mean min ml model mpi mul my mnt name nccl net none nobody
    notebook nvidia one op operator ops opt pip public python ray ray root run runner scratch
    server service shared shm slurm src step student sum system task team temp tensor tensorflow
    test tester tf tmp torch train trainer ubuntu unknown user username users usr vagrant vscode
    work worker workspace xla
    """
)


def is_identifying(name: str, shortest: int = _SHORTEST_USER) -> bool:
    """Whether a name is long enough and not a common word, so that it identifies someone."""
    return len(name) >= shortest and name.lower() not in _COMMON_WORDS and not name.isdigit()


_END = r"(?=[/\\\s:;,\"')\]\x00-\x1f]|$)"
_USER = r"(?P<user>[A-Za-z][A-Za-z0-9_.\-]{1,63})"
# Folders in which clusters store files of users.
_SHARED = (
    r"(?P<s>/(?:nfs|gpfs|lustre|beegfs|ceph|weka|fsx|efs|scratch|data|storage|"
    r"work|project|cluster|shared|export|net|mnt|vol|disk|raid)[A-Za-z0-9_\-]*"
)
# Folders that programs create only in home folders.
_OF_A_HOME = (
    r"/(?:\.(?:cache|config|local|conda|pyenv|ssh|triton|jupyter|ipython|keras|vscode-server)"
    r"|(?:mini|ana)conda[0-9]?|mini-?forge[0-9]?|mambaforge|micromamba)/"
)


def _is_of_a_user(match: re.Match[str]) -> bool:
    """Whether the last component of a path is the name of a user.

    A path that ends there may also be a module of a package: 'app/data/users/views.py'.
    """
    goes_on = match.string[match.end() : match.end() + 1] == "/"
    return is_identifying(match["user"]) and (goes_on or begins_word(match))


def _begins_at_user(match: re.Match[str]) -> bool:
    """Whether the match is the start of a path, and its last component the name of a user."""
    return is_identifying(match["user"]) and begins_word(match)


HOMES = (
    Rule("home", ("/home/", "/users/"), regex(
        r"(?P<s>/(?:home|Users)/(?P<user>[^/\s:;,\"'\\<>()\x00-\x1f]+))", _ASCII)),
    Rule("home", ("/mnt/",), regex(r"(?P<s>/mnt/[a-z])/Users/[^/\s]", _ASCII)),
    Rule("home", ("/root",), regex(rf"(?P<s>/root){_END}", _ASCII)),
    # A folder name may contain spaces if more components follow.
    Rule("home", (":\\users\\", ":\\\\users\\\\", ":/users/"), regex(
        r"(?P<s>[a-z]:[\\/]{1,4}Users[\\/]{1,4}"
        r"(?P<user>[^\\/:*?\"<>|\x00-\x1f]{1,64}?(?=[\\/])|[^\\/:*?\"<>|\s]+))", _ASCII_ANY_CASE)),
    Rule("home", ("/users/", "/people/", "/homes/"), regex(
        rf"{_SHARED}(?:/[A-Za-z0-9_.\-]+){{0,3}}?/(?:users|people|homes)/{_USER}){_END}",
        _ASCII), _is_of_a_user),
    Rule("home", ("/users/",), regex(rf"(?P<s>/users/{_USER})(?=/)", _ASCII), _begins_at_user),
    Rule("home", ("conda", "forge", "mamba", "/."), regex(
        rf"{_SHARED}(?:/[A-Za-z0-9_.\-]+){{0,3}}?/{_USER})(?={_OF_A_HOME})",
        _ASCII), _is_of_a_user),
    # AFS and EOS sort users by their first letter.
    Rule("home", ("/afs/", "/eos/"), regex(
        rf"(?P<s>/(?:afs/[A-Za-z0-9_.\-]+|eos)/(?:users?|home)/(?:[a-z]/)?{_USER}){_END}", _ASCII)),
)  # fmt: skip
"""Home folders of Linux, macOS, Windows, WSL and clusters; the group `user` is the user name."""

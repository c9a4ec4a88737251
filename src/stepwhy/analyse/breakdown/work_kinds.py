"""What kind of work Python of the program does, by its stack samples.

A function in C leaves no frame: a sample in the program itself is Python, or such a function that
the line calls directly. Only in a loop, where lines repeat for element after element, it counts as
Python.
"""

from __future__ import annotations

from enum import StrEnum

from stepwhy.base.patterns import regex


class WorkKind(StrEnum):
    """What the program does for each sample of a batch."""

    ELEMENTS = "a loop in Python over elements"
    SEARCH = "a search through a list for each element"
    TABLE = "rows or columns looked up in a data frame"
    ARCHIVE = "data unpacked from an archive"
    DECODE = "files or bytes decoded"
    FILES = "files opened or read"
    OTHER = ""


REMOVABLE = frozenset({WorkKind.ELEMENTS, WorkKind.SEARCH, WorkKind.TABLE, WorkKind.ARCHIVE})
"""Work that another way to write the line mostly spares; the rest has to be done by someone."""

_DECODERS = frozenset({
    "PIL", "cv2", "imageio", "tifffile", "pydicom", "nibabel", "rasterio", "decord", "av",
    "soundfile", "audioread", "librosa", "torchvision", "torchaudio",
})  # fmt: skip
_READERS = frozenset({"h5py", "netCDF4", "zarr", "numcodecs", "lmdb", "pyarrow", "fsspec", "s3fs"})
_TABLES = regex(r"(?:pandas|polars): (?!read_|.*\bto_)")
# Source: numpy/lib/npyio.py, and the modules of the standard library for compressed files.
_ARCHIVES = regex(
    r"numpy: NpzFile\.\w+|python: (?:Zip|_?Gzip|BZ2|LZMA|Tar)\w*\..*|python: (?:decompress|gunzip)"
)
_UNPACKS = regex(r"\bdecompress(?:obj)?\b")
_FILES = regex(
    r"python: (?:loads?|Path\.(?:open|read_\w+)|open)|numpy: (?:load|fromfile|loadtxt|genfromtxt)"
    r"|pandas: read_\w+"
)
_SEARCHES = regex(r"\bindex\b")


def kind_of(package: str, called: str, loop: str, names: str) -> WorkKind:
    """What a sample shows.

    Args:
        package: As in the table `samples`, like all arguments; '' if unknown.
        called: What the line has called.
        loop: Whether it is in a loop.
        names: Names of what it calls.
    """
    if _ARCHIVES.match(called):
        return WorkKind.ARCHIVE
    if _TABLES.match(called):
        return WorkKind.TABLE
    if package in _DECODERS or (not called and _UNPACKS.search(names)):
        return WorkKind.DECODE
    if package in _READERS or _FILES.match(called):
        return WorkKind.FILES
    if loop and not package:
        return WorkKind.SEARCH if _SEARCHES.search(names) else WorkKind.ELEMENTS
    return WorkKind.OTHER


__all__ = ["REMOVABLE", "WorkKind", "kind_of"]

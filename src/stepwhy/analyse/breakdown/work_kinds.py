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
    PARSE = "text or records parsed for each sample"
    SLICES = "parts read from a chunked or compressed file"
    QUERY = "a database asked for each sample"
    CONVERT = "lists converted to tensors, value by value"
    DECODE = "files or bytes decoded"
    FILES = "files opened or read"
    OTHER = ""


REMOVABLE = frozenset(WorkKind) - {WorkKind.DECODE, WorkKind.FILES, WorkKind.OTHER}
"""Work that another way to write the line mostly spares; the rest has to be done by someone."""

FILE_LIBRARIES = frozenset({
    "python", "PIL", "cv2", "imageio", "tifffile", "pydicom", "nibabel", "rasterio", "decord", "av",
    "soundfile", "audioread", "h5py", "netCDF4", "zarr", "numcodecs", "lmdb", "pyarrow", "pandas",
    "fsspec", "s3fs", "gcsfs",
})  # fmt: skip
"""The standard library ("python") and packages that open, unpack, decode or parse files."""
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
    r"python: (?:load|Path\.(?:open|read_\w+)|open)|numpy: (?:load|fromfile)"
    r"|pandas: read_\w+"
)
# Source: json, _strptime, ast, re, csv, xml and configparser of the standard library.
_PARSES = regex(
    r"python: (?:loads|_strptime\w*|literal_eval|(?:full)?match|search|findall|finditer|sub"
    r"|parse\w*|fromstring|XML|JSONDecoder\..*|DictReader\..*)"
    r"|numpy: (?:loadtxt|genfromtxt|fromstring)|(?:yaml|dateutil|simplejson|lxml|bs4): .*"
)
_SLICES = regex(
    r"h5py: (?:Dataset|Group|File)\.__getitem__|zarr: \w*Array\w*\..*|tables: \w*Array\..*"
    r"|netCDF4: .*|pyarrow: (?:ParquetFile|ParquetDataset|read)\w*.*"
)
_DATABASES = frozenset({"sqlalchemy", "psycopg2", "psycopg", "pymysql", "peewee", "duckdb"})
# Functions in C, by the name that a line calls.
_PARSES_IN_C = regex(r"\b(?:fromstring|strptime|fromisoformat|loads)\b")
_QUERIES_IN_C = regex(r"\b(?:execute|fetchone|fetchmany|fetchall)\b")
_CONVERTS_IN_C = regex(r"\b(?:(?:as_)?tensor|\w*Tensor)\b")
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
    if _PARSES.match(called) or (not called and not package and _PARSES_IN_C.search(names)):
        return WorkKind.PARSE
    if package in _DATABASES or (not called and not package and _QUERIES_IN_C.search(names)):
        return WorkKind.QUERY
    if _SLICES.match(called):
        return WorkKind.SLICES
    if package in _DECODERS or (not called and _UNPACKS.search(names)):
        return WorkKind.DECODE
    if package in _READERS or _FILES.match(called):
        return WorkKind.FILES
    if loop and not package:
        return WorkKind.SEARCH if _SEARCHES.search(names) else WorkKind.ELEMENTS
    if not called and not package and _CONVERTS_IN_C.search(names):
        return WorkKind.CONVERT
    return WorkKind.OTHER

"""Files and folders in buckets (s3://, gs://), through the file systems of `fsspec`."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

from stepwhy.read.inputs.remote.addresses import MAGIC, is_file_name, split

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from typing import Self

    from stepwhy.read.inputs.remote.budget import Budget

    Report = Callable[[int | None], None]

# Use one stream, which calls back for each chunk. Several streams keep up to 500 MB in memory
# before they call back, which looks like silence on a slow link. `gcsfs` uses one if there are
# headers.
_OPENED_WITH: dict[str, dict[str, Any]] = {"s3": {"max_concurrency": 1}}
_COPIED_WITH: dict[str, dict[str, Any]] = {"gs": {"headers": {}}, "gcs": {"headers": {}}}


class Bucket:
    """Reads addresses of one scheme; used as an asynchronous context manager.

    The file systems list a folder in one call, which is limited by time; its entries are counted
    afterwards. They write copies themselves, and call back after each chunk.
    """

    def __init__(self, scheme: str, budget: Budget) -> None:
        import fsspec  # noqa: PLC0415 - only where there is an address

        with warnings.catch_warnings():  # about a missing project, which only writing needs
            warnings.simplefilter("ignore")
            self._files = fsspec.filesystem(scheme, **_OPENED_WITH.get(scheme, {}))
        self._scheme = scheme
        self._budget = budget

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        """Do nothing: the file system stays open, and signed in, for the next command."""

    async def _call(self, method: str, *args: Any, **options: Any) -> Any:
        if self._files.async_impl:
            return await getattr(self._files, f"_{method}")(*args, **options)
        return getattr(self._files, method)(*args, **options)

    async def is_folder(self, address: str) -> bool:
        """Whether there is a folder at an address."""
        info = await self._call("info", address)
        return bool(info["type"] == "directory")

    async def find(self, folder: str) -> dict[str, str]:
        """Files below a folder: address by path in it."""
        await self._call("ls", folder)  # raises without permission; `find` returns nothing
        names = await self._call("find", folder, maxdepth=self._budget.limits.depth)
        self._budget.listed(len(names))
        return self._select_below(names, folder)

    async def glob(self, address: str) -> dict[str, bool]:
        """Addresses that match a glob, and whether each is a folder."""
        _, path = split(address)
        host, _, inside = path.partition("/")
        fixed = f"{host}/{MAGIC.split(inside, maxsplit=1)[0]}".rpartition("/")[0]
        folder = f"{self._scheme}://{fixed}/"
        await self._call("ls", folder)
        found = await self._call("glob", address, detail=True, maxdepth=self._budget.limits.depth)
        self._budget.listed(len(found))
        inside_folder = self._select_below(found, folder).values()
        kinds = {self._address(name): info["type"] == "directory" for name, info in found.items()}
        return {address: kinds[address] for address in inside_folder}

    def _select_below(self, names: Any, folder: str) -> dict[str, str]:
        """Entries of a listing that are below its folder: address by path in it."""
        start = f"{split(folder)[1].strip('/')}/"
        found = {}
        for name in names:
            path = name.lstrip("/").removeprefix(start)
            if path != name.lstrip("/") and is_file_name(path):
                found[path] = self._address(name)
        return found

    def _address(self, name: str) -> str:
        return f"{self._scheme}://{name.lstrip('/')}"

    async def copy(self, address: str, target: Path, report: Report) -> None:
        """Copy a file.

        Args:
            address: Address of the file.
            target: Path of the copy, which must not exist.
            report: Called with the size in bytes, or None if unknown, after each chunk.
        """
        from fsspec.callbacks import Callback  # noqa: PLC0415 - only where there is an address

        done = 0

        def chunk_written(size: int | None, value: int, **_: Any) -> None:
            nonlocal done
            if value == 0:
                self._budget.restart_window()
            self._budget.received(value - done)
            done = value
            self._budget.check_space(target.parent, max((size or 0) - value, 0))
            report(size)

        options = {"callback": Callback(hooks={"budget": chunk_written})}
        options |= _COPIED_WITH.get(self._scheme, {})
        await self._call("get_file", address, str(target), **options)

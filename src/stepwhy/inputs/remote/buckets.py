"""Files and folders in buckets (s3://, gs://), through the file systems of `fsspec`."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

from stepwhy.inputs.remote.addresses import MAGIC, is_file_name, split

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from typing import Self

    from stepwhy.inputs.remote.budget import Budget

    Report = Callable[[int | None], None]

# One stream, which calls back for each chunk: several at a time call back after up to 500 MB, which
# they hold in memory, and look like silence on a slow link. `gcsfs` uses one if there are headers.
_OPENED_WITH: dict[str, dict[str, Any]] = {"s3": {"max_concurrency": 1}}
_COPIED_WITH: dict[str, dict[str, Any]] = {"gs": {"headers": {}}, "gcs": {"headers": {}}}


class Bucket:
    """Reads addresses of one scheme; used as an asynchronous context manager.

    The file systems list a folder in one call, which is limited by time; what it brings is counted
    afterwards. They write copies themselves, and call back after each chunk.
    """

    def __init__(self, scheme: str, budget: Budget) -> None:
        import fsspec  # noqa: PLC0415 - only where there is an address

        with warnings.catch_warnings():  # that no project is set, which only writing needs
            warnings.simplefilter("ignore")
            self._files = fsspec.filesystem(scheme, **_OPENED_WITH.get(scheme, {}))
        self._scheme = scheme
        self._budget = budget

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        """The file system stays open for the next command: it is signed in."""

    async def _call(self, method: str, *args: Any, **options: Any) -> Any:
        if self._files.async_impl:
            return await getattr(self._files, f"_{method}")(*args, **options)
        return getattr(self._files, method)(*args, **options)

    async def is_folder(self, address: str) -> bool:
        """Whether there is a folder at an address."""
        info = await self._call("info", address)
        return bool(info["type"] == "directory")

    async def find(self, folder: str) -> dict[str, str]:
        """The files below a folder: address by path in it."""
        await self._call("ls", folder)  # raises; `find` takes what may not be listed for empty
        names = await self._call("find", folder, maxdepth=self._budget.limits.depth)
        self._budget.listed(len(names))
        return self._inside(names, folder)

    async def glob(self, address: str) -> dict[str, bool]:
        """The addresses that match a glob, and whether each is a folder."""
        _, path = split(address)
        host, _, inside = path.partition("/")
        fixed = f"{host}/{MAGIC.split(inside, maxsplit=1)[0]}".rpartition("/")[0]
        folder = f"{self._scheme}://{fixed}/"
        await self._call("ls", folder)
        found = await self._call("glob", address, detail=True, maxdepth=self._budget.limits.depth)
        self._budget.listed(len(found))
        inside_folder = self._inside(found, folder).values()
        kinds = {self._address(name): info["type"] == "directory" for name, info in found.items()}
        return {address: kinds[address] for address in inside_folder}

    def _inside(self, names: Any, folder: str) -> dict[str, str]:
        """Of what a listing names, what lies below its folder: address by path in it."""
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
            address: Where it is.
            target: Where the copy goes; there is no such file yet.
            report: Called with the size in bytes, or None where it is unknown, after each chunk.
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


__all__ = ["Bucket"]

"""Names that the fixes of `stepwhy try` use."""

from __future__ import annotations

from stepwhy.record.framework_names.name import Name

_EPOCHS = "`stepwhy try --fix constant-batch`"
_ITERATOR = "iter(m.DataLoader([0, 1]))"
TRIALS: dict[str, tuple[Name, ...]] = {
    "torch": (
        *(
            Name("torch.utils.data.dataloader", f"_{kind}DataLoaderIter._next_data", _EPOCHS)
            for kind in ("SingleProcess", "MultiProcessing")
        ),
        *(
            Name(
                "torch.utils.data.dataloader",
                f"_BaseDataLoaderIter().{name}",
                _EPOCHS,
                f"hasattr({_ITERATOR}, '{name}')",
            )
            for name in ("_dataset_kind", "_index_sampler")
        ),
        Name("torch.nn.modules.loss", "_Loss", "`stepwhy try --fix autocast`"),
        Name(
            "torch.nn",
            "Module()._compiled_call_impl",
            "`stepwhy try --fix torch-compile`",
            "hasattr(m.Linear(1, 1), '_compiled_call_impl')",
        ),
        Name(
            "torch.utils.data._utils.worker",
            "get_worker_info",
            "`stepwhy try --fix torch-threads`",
        ),
        Name("torch.cuda.memory", "empty_cache", "`stepwhy try --fix empty-cache-rarely`"),
    ),
    "jax": (
        Name("jax._src.config", "config.update", "`stepwhy try --fix jax-debug-off`"),
        Name("jax._src.api", "grad", "`stepwhy try --fix jax-jit`"),
    ),
}
"""The names by framework."""

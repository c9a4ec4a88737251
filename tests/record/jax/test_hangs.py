"""A process of JAX that does not take part in a step, with the real framework."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.record.hung_ranks import hung_collective

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.framework

TRAIN = """
def train(rank, addresses):
    import jax
    import jax.numpy as jnp
    import numpy as np
    from jax.sharding import Mesh, NamedSharding, PartitionSpec

    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.distributed.initialize(addresses[0], 2, rank)
    mesh = Mesh(np.array(jax.devices()), ("rank",))
    split = NamedSharding(mesh, PartitionSpec("rank"))

    @jax.jit
    def update(weights, batch):
        return weights - 0.1 * jax.grad(lambda w: jnp.mean((batch @ w) ** 2))(weights)

    weights = jax.device_put(np.ones((4, 4), np.float32), NamedSharding(mesh, PartitionSpec()))
    for step in range(30):
        batch = jax.make_array_from_process_local_data(split, np.ones((8, 4), np.float32))
        if step == 25 and rank == 1:
            stay_out()
        weights = update(weights, batch)
        weights.block_until_ready()
"""


def test_the_process_that_the_other_waits_for_is_named_with_its_line(tmp_path: Path) -> None:
    # On a CPU, the compiled function itself waits for the other process, or the array does.
    found = hung_collective(tmp_path, TRAIN, "2", r"\w+ \(jax\)")
    assert found.evidence[1].where.endswith(": train")

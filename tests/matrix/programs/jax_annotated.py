"""Steps marked with StepTraceAnnotation; the update and an evaluation are jitted."""

import jax
import jax.numpy as jnp

key = jax.random.key(42)


@jax.jit
def update(weights, batch):
    gradient = jax.grad(lambda w: jnp.mean(jnp.abs(batch @ w - batch)))(weights)
    return weights - 0.1 * gradient


@jax.jit
def evaluate(weights, batch):
    return jnp.mean((batch @ weights - batch) ** 2)


weights = jax.random.normal(key, (256, 256)) / 16
for step in range(40):
    with jax.profiler.StepTraceAnnotation("train", step_num=step):
        batch = jax.random.normal(jax.random.fold_in(key, step), (64, 256))
        weights = update(weights, batch)
        error = evaluate(weights, batch).block_until_ready()
    if step % 5 == 0:
        print(f"{step} {error:.9f}")

"""Data-parallel training of a perceptron with JAX on CPUs; Gloo adds up the gradients over TCP.

Each rank has a part of the batch and all parameters. It reads RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT and STEPS
from its environment, and prints one line of JSON for each step. With --trace FOLDER, JAX's profiler writes what rank 0
did from the second step on (fairspine import jax-trace).
"""

import argparse
import json
import os
import time

# Sixteen ranks share the processors of one machine.
os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1")

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jax.sharding import Mesh, NamedSharding, PartitionSpec

SAMPLES = 8
"""Of each rank."""
LEARNING_RATE = 2.0


def loss_of(layers, x, y):
    """Return the mean squared error of the perceptron."""
    for layer in layers[:-1]:
        x = jnp.tanh(x @ layer)
    return jnp.mean((x @ layers[-1] - y) ** 2)


def step(layers, x, y):
    """Return the layers after one step of gradient descent, and the loss before it.

    All gradients and the loss are one buffer, as in the buckets of larger frameworks: an all-reduce of each alone would
    wait for the slowest rank each time, and that of a single number takes as many messages as any other.
    """
    loss, gradients = jax.value_and_grad(loss_of)(layers, x, y)
    bucket, parts = ravel_pytree((loss, gradients))
    loss, gradients = parts(jax.lax.pmean(bucket, "ranks"))
    return [layer - LEARNING_RATE * gradient for layer, gradient in zip(layers, gradients, strict=True)], loss


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--width", type=int, default=500, help="gradients have 4 * layers * width * width bytes")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--compute", type=float, default=0.0, help="seconds to wait in each step, as a larger model does"
    )
    parser.add_argument("--trace", help="folder of the profile of rank 0")
    options = parser.parse_args()
    env = os.environ
    rank, ranks = int(env["RANK"]), int(env["WORLD_SIZE"])

    jax.config.update("jax_platforms", "cpu")
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.distributed.initialize(
        f"{env['MASTER_ADDR']}:{env['MASTER_PORT']}",
        num_processes=ranks,
        process_id=rank,
        initialization_timeout=300,
        heartbeat_timeout_seconds=300,
    )
    mesh = Mesh(np.array(jax.devices()), ("ranks",))
    everywhere, by_rank = NamedSharding(mesh, PartitionSpec()), NamedSharding(mesh, PartitionSpec("ranks"))

    def place(array, sharding):
        return jax.make_array_from_callback(array.shape, sharding, lambda index: array[index])

    # All ranks draw the same numbers, and keep their own part.
    draw, width = np.random.default_rng(options.seed), options.width
    layers = [
        place((draw.standard_normal((width, width)) / width**0.5).astype(np.float32), everywhere)
        for _ in range(options.layers)
    ]
    samples = draw.standard_normal((SAMPLES * ranks, width)).astype(np.float32)
    x, y = place(samples, by_rank), place(np.tanh(samples[:, ::-1]).astype(np.float32), by_rank)
    whole, own = everywhere.spec, by_rank.spec
    on_all = jax.jit(
        jax.shard_map(step, mesh=mesh, in_specs=(whole, own, own), out_specs=(whole, whole), check_vma=False)
    )

    profiled = options.trace is not None and rank == 0
    for number in range(int(env["STEPS"])):
        # The first step compiles.
        if profiled and number == 1:
            jax.profiler.start_trace(options.trace)
        began = time.perf_counter()
        time.sleep(options.compute)
        layers, loss = on_all(layers, x, y)
        jax.block_until_ready(layers)
        seconds = time.perf_counter() - began
        print(json.dumps({"step": number, "seconds": seconds, "loss": float(loss)}), flush=True)
    if profiled:
        jax.profiler.stop_trace()
    jax.distributed.shutdown()


if __name__ == "__main__":
    main()

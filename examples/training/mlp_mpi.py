"""Data-parallel training of a perceptron with NumPy; OpenMPI adds up the gradients over TCP.

Each rank has a part of the batch and all parameters. It is started by mpirun, reads STEPS from its environment, and
prints one line of JSON for each step. With --counts PREFIX, OpenMPI writes what each rank has sent to each other one in
the whole run to PREFIX.RANK.prof (fairspine import openmpi-monitoring).
"""

import argparse
import json
import os
import time

# Sixteen ranks share the processors of one machine.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

SAMPLES = 8
"""Of each rank."""
LEARNING_RATE = 2.0
RING = {"use_dynamic_rules": "1", "allreduce_algorithm": "4"}
"""Parameters of OpenMPI for an all-reduce by a ring (ompi_info --param coll tuned --level 9)."""
COUNTS = {"enable": "2", "enable_output": "3"}
"""Parameters of its monitoring: messages of the program and of collectives, and a file for each rank at the end."""


def gradients_of(layers, x, y):
    """Return the gradients of all layers in one array, and the mean squared error."""
    inputs = [x]
    for layer in layers[:-1]:
        inputs.append(np.tanh(inputs[-1] @ layer))
    error = inputs[-1] @ layers[-1] - y
    back, parts = 2 * error / error.size, []
    for layer, given in zip(reversed(layers), reversed(inputs), strict=True):
        parts.append(given.T @ back)
        back = (back @ layer.T) * (1 - given**2)
    return np.stack(parts[::-1]).astype(np.float32), np.mean(error**2)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--width", type=int, default=500, help="gradients have 4 * layers * width * width bytes")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--compute", type=float, default=0.0, help="seconds to wait in each step, as a larger model does"
    )
    parser.add_argument("--ring", action="store_true", help="all-reduce by a ring, not by OpenMPI's own choice")
    parser.add_argument("--counts", help="path at which the names of the files of OpenMPI's monitoring begin")
    options = parser.parse_args()
    if options.ring:
        os.environ.update({f"OMPI_MCA_coll_tuned_{name}": value for name, value in RING.items()})
    if options.counts:
        counts = {**COUNTS, "filename": options.counts}
        os.environ.update({f"OMPI_MCA_pml_monitoring_{name}": value for name, value in counts.items()})
    # This initialises MPI, which reads the variables.
    from mpi4py import MPI

    ranks, width = MPI.COMM_WORLD, options.width
    # All ranks draw the same numbers, and keep their own part.
    draw = np.random.default_rng(options.seed)
    layers = (draw.standard_normal((options.layers, width, width)) / width**0.5).astype(np.float32)
    samples = draw.standard_normal((SAMPLES * ranks.size, width)).astype(np.float32)
    own = slice(SAMPLES * ranks.rank, SAMPLES * (ranks.rank + 1))
    x, y = samples[own], np.tanh(samples[own, ::-1])

    total = np.empty_like(layers)
    for number in range(int(os.environ["STEPS"])):
        began = time.perf_counter()
        gradients, loss = gradients_of(layers, x, y)
        time.sleep(options.compute)
        ranks.Allreduce(gradients, total)
        layers -= LEARNING_RATE / ranks.size * total
        loss = ranks.allreduce(float(loss)) / ranks.size
        print(json.dumps({"step": number, "seconds": time.perf_counter() - began, "loss": loss}), flush=True)


if __name__ == "__main__":
    main()

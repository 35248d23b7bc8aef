"""Data-parallel training of a perceptron with PyTorch's DistributedDataParallel on CPUs; Gloo adds up the gradients.

It reads RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT and STEPS from its environment, and prints one line of JSON for each
step. With --trace FOLDER, torch.profiler writes what each rank did from the second step on (fairspine import kineto).
"""

import argparse
import json
import os
import time
from contextlib import nullcontext

# Sixteen ranks share the processors of one machine.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch
from torch import distributed, nn
from torch.profiler import ProfilerActivity, profile, schedule

SAMPLES = 8
"""Of each rank."""
LEARNING_RATE = 2.0


def profiler(folder, rank, steps):
    """Return a profiler of all steps but the first, whose file is in a folder; with shapes, which sizes follow from."""

    def write(profiled):
        profiled.export_chrome_trace(os.path.join(folder, f"rank{rank}.json"))

    all_but_the_first = schedule(wait=0, warmup=1, active=steps - 1, repeat=1)
    return profile(
        activities=[ProfilerActivity.CPU], schedule=all_but_the_first, record_shapes=True, on_trace_ready=write
    )


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--width", type=int, default=500, help="gradients have 4 * layers * width * width bytes")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--compute", type=float, default=0.0, help="seconds to wait in each step, as a larger model does"
    )
    parser.add_argument("--trace", help="folder of the profiler's traces, a file a rank")
    options = parser.parse_args()
    rank, ranks, steps = (int(os.environ[name]) for name in ("RANK", "WORLD_SIZE", "STEPS"))

    # Gloo connects from the address of the host's name.
    distributed.init_process_group("gloo")
    torch.manual_seed(options.seed)
    layers = []
    for _ in range(options.layers):
        layers += [nn.Tanh(), nn.Linear(options.width, options.width, bias=False)]
    model = nn.parallel.DistributedDataParallel(nn.Sequential(*layers[1:]))
    optimizer = torch.optim.SGD(model.parameters(), lr=LEARNING_RATE)
    # All ranks draw the same numbers, and keep their own part.
    samples = torch.randn(SAMPLES * ranks, options.width)
    own = slice(SAMPLES * rank, SAMPLES * (rank + 1))
    x, y = samples[own], torch.tanh(samples[own].flip(1))

    with profiler(options.trace, rank, steps) if options.trace else nullcontext() as profiled:
        for number in range(steps):
            began = time.perf_counter()
            time.sleep(options.compute)
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(model(x), y)
            loss.backward()
            optimizer.step()
            mean = loss.detach().clone()
            distributed.all_reduce(mean)
            seconds = time.perf_counter() - began
            print(json.dumps({"step": number, "seconds": seconds, "loss": float(mean) / ranks}), flush=True)
            if profiled is not None:
                profiled.step()
    distributed.barrier()
    distributed.destroy_process_group()


if __name__ == "__main__":
    main()

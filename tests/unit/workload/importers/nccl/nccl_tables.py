"""Tables as nccl-tests prints them."""

from __future__ import annotations

HEAD = "# nThread 1 nGpus 1 minBytes 8 maxBytes 4096 step: 2(factor) warmup iters: 5 iters: 20 agg iters: 1\n"


def table(test: str, *rows: tuple[int, str, int, float, str], name: bool = True, gpus: int = 4) -> str:
    """nccl-tests' output: size, redop, root, factor of the bus bandwidth, and the check in place."""
    said = [f"# Collective test starting: {test}_perf\n"] if name else []
    said.append(HEAD)
    said += [
        f"#  Rank {i:2d} Group  0 Pid {1000 + i} on node{i // 2} device {i % 2:2d} [0x10] GPU\n" for i in range(gpus)
    ]
    for size, redop, root, factor, check in rows:
        bus = 10 * factor
        said.append(
            f"{size:12d} {size // 4:12d}     float  {redop:>7s} {root:6d}    100.5   10.00   {bus:.2f}      0"
            f"    99.0   10.10   {bus:.2f}    {check}\n"
        )
    return "".join(said)

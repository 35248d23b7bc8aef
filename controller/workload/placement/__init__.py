"""Where the ranks of jobs run: hosts, GPUs, servers of a scheduler."""

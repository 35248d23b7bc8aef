"""The agent on a host: it makes the kernel send planned flows over their paths, and moves them off dead ones."""

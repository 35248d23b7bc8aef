"""Traces of PyTorch: of its profiler, and of its Flight Recorder."""

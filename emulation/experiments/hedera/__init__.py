"""Experiments with Hedera's loop."""

"""Experiments with learned jobs and re-plans."""

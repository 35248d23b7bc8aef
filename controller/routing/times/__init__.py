"""Iteration times of jobs that compute between their collectives."""

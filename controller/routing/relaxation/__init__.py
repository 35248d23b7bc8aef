"""Ideal times: flows that are split at will, as linear programs and cuts."""

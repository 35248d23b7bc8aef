"""Serving of HTTP connections: framing, limits, streams."""

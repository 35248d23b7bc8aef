"""Feeders of sightings, and planning of what is learned."""

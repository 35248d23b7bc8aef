"""Source ports of the flows of jobs."""

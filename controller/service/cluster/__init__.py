"""A replica of a cluster: election, following, reads."""

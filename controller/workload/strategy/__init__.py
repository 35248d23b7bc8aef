"""Jobs described by model and parallelism: the collectives of an iteration and the time of computing."""

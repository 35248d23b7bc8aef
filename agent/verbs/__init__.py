"""What an agent shares with libfairspine-verbs in processes that use RDMA: ports for their QPs, and word of these."""

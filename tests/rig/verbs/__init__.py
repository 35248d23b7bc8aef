"""Processes that connect QPs over libibverbs, on devices of the tests."""

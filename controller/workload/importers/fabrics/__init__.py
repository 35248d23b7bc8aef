"""Files that describe real or simulated networks: each becomes a fabric file."""

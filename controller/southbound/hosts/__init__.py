"""Where hosts are: claims of addresses, their proof, and the search for hosts."""
